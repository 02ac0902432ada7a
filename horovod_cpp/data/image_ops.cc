#include "horovod_cpp/data/image_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::data {
namespace {

template <typename T>
void flip_rows(const Tensor& from, const Tensor& to) {
  const std::int64_t width = from.size(2);
  const std::int64_t rows = from.size(0) * from.size(1);
  const T* source = static_cast<const T*>(from.data());
  T* target = static_cast<T*>(to.data());
  for (std::int64_t row = 0; row < rows; ++row) {
    std::reverse_copy(source + row * width, source + (row + 1) * width, target + row * width);
  }
}

}  // namespace

Tensor unit_floats(const Tensor& bytes) {
  const Tensor dense = kernels::contiguous(bytes);
  Tensor result = Tensor::empty(dense.shape());
  const auto* from = dense.data<std::uint8_t>();
  auto* to = result.data<float>();
  for (std::int64_t i = 0; i < dense.numel(); ++i) to[i] = static_cast<float>(from[i]) / 255.0F;
  return result;
}

void refuse_dtype(const Tensor& image, const char* caller) {
  throw InvalidArgumentError(caller, ": takes uint8 and float32, got ", describe(image));
}

void check_image(const Tensor& image, const char* caller) {
  if (image.defined() && image.dim() == 3 && image.numel() > 0) return;
  throw InvalidArgumentError(caller, ": expected an image [channels, height, width]", ", got ",
                             (image.defined() ? describe(image) : "an undefined tensor"));
}

Tensor crop(const Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
            std::int64_t width, const char* caller) {
  check_image(image, caller);
  const Tensor whole = kernels::contiguous(image);
  Tensor piece = Tensor::empty({whole.size(0), height, width}, whole.dtype());
  const auto item = static_cast<std::int64_t>(size_of(whole.dtype()));
  const std::int64_t rows = whole.size(1);
  const std::int64_t stride = whole.size(2) * item;
  // What of a row of the result lies inside the image.
  const std::int64_t first = std::clamp<std::int64_t>(-left, 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(whole.size(2) - left, first, width);
  const auto bytes = [item](std::int64_t count) { return static_cast<std::size_t>(count * item); };
  const auto* from = static_cast<const std::byte*>(whole.data());
  auto* to = static_cast<std::byte*>(piece.data());
  for (std::int64_t channel = 0; channel < whole.size(0); ++channel) {
    for (std::int64_t y = 0; y < height; ++y, to += width * item) {
      const std::int64_t row = top + y;
      if (row < 0 || row >= rows || first == last) {
        std::memset(to, 0, bytes(width));
        continue;
      }
      std::memset(to, 0, bytes(first));
      std::memcpy(to + first * item, from + (channel * rows + row) * stride + (left + first) * item,
                  bytes(last - first));
      std::memset(to + last * item, 0, bytes(width - last));
    }
  }
  return piece;
}

Tensor flip_horizontal(const Tensor& image, const char* caller) {
  check_image(image, caller);
  const Tensor from = kernels::contiguous(image);
  Tensor to = Tensor::empty(from.shape(), from.dtype());
  switch (size_of(from.dtype())) {
    case 1:
      flip_rows<std::uint8_t>(from, to);
      break;
    case 2:
      flip_rows<std::uint16_t>(from, to);
      break;
    case 4:
      flip_rows<std::uint32_t>(from, to);
      break;
    case 8:
      flip_rows<std::uint64_t>(from, to);
      break;
    default:
      throw InvalidArgumentError(caller, ": an image of ", from.dtype());
  }
  return to;
}

namespace {

constexpr int kFraction = 22;  // bits after the point: Pillow's 32 less 8 of a pixel and 2 to spare

// One direction of a resize: element i of the result is the weighted sum of `taps` elements of the
// source from first[i] on (short sums are filled up with weights of 0).
template <typename Weight>
struct Filter {
  std::int64_t taps = 0;
  std::vector<std::int64_t> first;
  std::vector<Weight> weights;  // [result, taps]

  const Weight* of(std::int64_t i) const { return &weights[static_cast<std::size_t>(i * taps)]; }
  std::int64_t begin(std::int64_t i) const { return first[static_cast<std::size_t>(i)]; }
};

template <typename Weight>
Weight to_weight(double weight) {
  if constexpr (std::is_integral_v<Weight>) {
    return static_cast<Weight>(std::lround(weight * (1 << kFraction)));
  } else {
    return static_cast<Weight>(weight);
  }
}

// A triangle whose base is two pixels of the source or of the result, whichever are larger.
template <typename Weight>
Filter<Weight> triangle_filter(std::int64_t source, std::int64_t result) {
  const double scale = static_cast<double>(source) / static_cast<double>(result);
  const double reach = std::max(scale, 1.0);
  Filter<Weight> filter;
  filter.taps = std::min(source, static_cast<std::int64_t>(std::ceil(reach)) * 2 + 1);
  filter.weights.resize(static_cast<std::size_t>(result * filter.taps));
  std::vector<double> exact(static_cast<std::size_t>(filter.taps));
  for (std::int64_t i = 0; i < result; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const std::int64_t begin = std::max<std::int64_t>(std::llround(center - reach), 0);
    const std::int64_t end = std::min<std::int64_t>(std::llround(center + reach), source);
    const std::int64_t first = std::min(begin, source - filter.taps);
    double sum = 0;
    std::ranges::fill(exact, 0.0);
    for (std::int64_t x = begin; x < end; ++x) {
      const double distance = std::abs((static_cast<double>(x) - center + 0.5) / reach);
      exact[static_cast<std::size_t>(x - first)] = std::max(0.0, 1.0 - distance);
      sum += exact[static_cast<std::size_t>(x - first)];
    }
    filter.first.push_back(first);
    for (std::int64_t tap = 0; tap < filter.taps; ++tap) {
      filter.weights[static_cast<std::size_t>(i * filter.taps + tap)] =
          to_weight<Weight>(exact[static_cast<std::size_t>(tap)] / sum);
    }
  }
  return filter;
}

// Pixels of an image, and the sums that make them.
struct Bytes {
  using Pixel = std::uint8_t;
  using Sum = std::int32_t;
  static constexpr Sum kStart = 1 << (kFraction - 1);  // rounds half up
  static Pixel pixel(Sum sum) {  // many rounded weights may add up to a little more than 1
    return static_cast<Pixel>(std::min(sum >> kFraction, Sum{255}));
  }
};
struct Floats {
  using Pixel = float;
  using Sum = float;
  static constexpr Sum kStart = 0;
  static Pixel pixel(Sum sum) { return sum; }
};

template <typename Kind>
void resize_width(const Tensor& from, const Tensor& to) {
  using Sum = typename Kind::Sum;
  const std::int64_t source = from.size(2);
  const std::int64_t width = to.size(2);
  const Filter<Sum> filter = triangle_filter<Sum>(source, width);
  const auto* row = from.data<typename Kind::Pixel>();
  auto* out = to.data<typename Kind::Pixel>();
  for (std::int64_t r = 0; r < from.size(0) * from.size(1); ++r, row += source, out += width) {
    for (std::int64_t x = 0; x < width; ++x) {
      const Sum* weight = filter.of(x);
      const auto* pixel = row + filter.begin(x);
      Sum sum = Kind::kStart;
      for (std::int64_t tap = 0; tap < filter.taps; ++tap) sum += weight[tap] * pixel[tap];
      out[x] = Kind::pixel(sum);
    }
  }
}

template <typename Kind>
void resize_height(const Tensor& from, const Tensor& to) {
  using Sum = typename Kind::Sum;
  const std::int64_t source = from.size(1);
  const std::int64_t height = to.size(1);
  const auto width = static_cast<std::size_t>(to.size(2));
  const Filter<Sum> filter = triangle_filter<Sum>(source, height);
  std::vector<Sum> sums(width);
  const auto* plane = from.data<typename Kind::Pixel>();
  auto* out = to.data<typename Kind::Pixel>();
  for (std::int64_t c = 0; c < from.size(0); ++c, plane += source * to.size(2)) {
    for (std::int64_t y = 0; y < height; ++y, out += width) {
      std::ranges::fill(sums, Kind::kStart);
      for (std::int64_t tap = 0; tap < filter.taps; ++tap) {
        const Sum weight = filter.of(y)[tap];
        const auto* row = plane + (filter.begin(y) + tap) * to.size(2);
        for (std::size_t x = 0; x < width; ++x) sums[x] += weight * row[x];
      }
      for (std::size_t x = 0; x < width; ++x) out[x] = Kind::pixel(sums[x]);
    }
  }
}

template <typename Kind>
Tensor resize_both(const Tensor& image, std::int64_t height, std::int64_t width) {
  Tensor narrow = Tensor::empty({image.size(0), image.size(1), width}, image.dtype());
  resize_width<Kind>(image, narrow);
  Tensor result = Tensor::empty({image.size(0), height, width}, image.dtype());
  resize_height<Kind>(narrow, result);
  return result;
}

}  // namespace

Tensor resize(const Tensor& image, std::int64_t height, std::int64_t width, const char* caller) {
  check_image(image, caller);
  if (image.size(1) == height && image.size(2) == width) return kernels::clone(image);
  if (image.dtype() == DType::kU8)
    return resize_both<Bytes>(kernels::contiguous(image), height, width);
  if (image.dtype() == DType::kF32)
    return resize_both<Floats>(kernels::contiguous(image), height, width);
  refuse_dtype(image, caller);
}

namespace {

using Rgb = std::array<float, 3>;

template <typename T>
constexpr float kWhite = std::is_same_v<T, float> ? 1.0F : 255.0F;

// The nearest value the dtype has on the dark side: torchvision truncates.
template <typename T>
T to_pixel(float value) {
  return static_cast<T>(std::clamp(value, 0.0F, kWhite<T>));
}

float gray_of(const Rgb& rgb) {  // ITU-R BT.601
  return 0.2989F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2];
}

// Calls use(T*, pixels of a channel, channels) on a contiguous copy, and returns the copy.
template <typename Use>
Tensor changed(const Tensor& image, const char* caller, Use use) {
  check_image(image, caller);
  if (image.size(0) != 1 && image.size(0) != 3) {
    throw InvalidArgumentError(caller, ": takes one channel or three, got ", image.shape());
  }
  Tensor copy = kernels::clone(image);
  const std::int64_t pixels = copy.size(1) * copy.size(2);
  if (copy.dtype() == DType::kU8) {
    use(copy.data<std::uint8_t>(), pixels, copy.size(0));
  } else if (copy.dtype() == DType::kF32) {
    use(copy.data<float>(), pixels, copy.size(0));
  } else {
    refuse_dtype(copy, caller);
  }
  return copy;
}

// Calls change(Rgb) -> Rgb on every pixel of three planes.
template <typename T, typename Change>
void change_colors(T* planes, std::int64_t pixels, Change change) {
  for (std::int64_t i = 0; i < pixels; ++i) {
    const Rgb before = {static_cast<float>(planes[i]), static_cast<float>(planes[i + pixels]),
                        static_cast<float>(planes[i + 2 * pixels])};
    const Rgb after = change(before);
    for (std::int64_t c = 0; c < 3; ++c) {
      planes[i + c * pixels] = to_pixel<T>(after[static_cast<std::size_t>(c)]);
    }
  }
}

// The gray of a pixel, in the dtype's own steps.
template <typename T>
float gray_in_steps(const Rgb& rgb) {
  return static_cast<float>(to_pixel<T>(gray_of(rgb)));
}

template <typename T>
double mean_gray(const T* planes, std::int64_t pixels, std::int64_t channels) {
  double sum = 0;
  for (std::int64_t i = 0; i < pixels; ++i) {
    if (channels == 1) {
      sum += static_cast<double>(planes[i]);
    } else {
      sum += static_cast<double>(
          gray_in_steps<T>({static_cast<float>(planes[i]), static_cast<float>(planes[i + pixels]),
                            static_cast<float>(planes[i + 2 * pixels])}));
    }
  }
  return sum / static_cast<double>(pixels);
}

// Hue in turns (reds beside magenta are negative), saturation and value in [0, 1] (A. R. Smith,
// "Color gamut transform pairs", SIGGRAPH 1978).
Rgb to_hsv(const Rgb& rgb) {
  const auto [low, high] = std::ranges::minmax(rgb);
  const float span = high - low;
  if (span == 0) return {0, 0, high};
  float sixths = 0;
  if (rgb[0] == high) {
    sixths = (rgb[1] - rgb[2]) / span;
  } else if (rgb[1] == high) {
    sixths = 2 + (rgb[2] - rgb[0]) / span;
  } else {
    sixths = 4 + (rgb[0] - rgb[1]) / span;
  }
  return {sixths / 6, span / high, high};
}

// The reverse, for a hue in [0, 1).
Rgb to_rgb(const Rgb& hsv) {
  const float sixth = std::floor(hsv[0] * 6);
  const float rest = hsv[0] * 6 - sixth;
  const float value = hsv[2];
  const float low = value * (1 - hsv[1]);
  const float falling = value * (1 - hsv[1] * rest);
  const float rising = value * (1 - hsv[1] * (1 - rest));
  switch (static_cast<int>(sixth) % 6) {
    case 0:
      return {value, rising, low};
    case 1:
      return {falling, value, low};
    case 2:
      return {low, value, rising};
    case 3:
      return {low, falling, value};
    case 4:
      return {rising, low, value};
    default:
      return {value, low, falling};
  }
}

}  // namespace

Tensor adjust_brightness(const Tensor& image, double factor, const char* caller) {
  return changed(
      image, caller, [=]<typename T>(T* planes, std::int64_t pixels, std::int64_t channels) {
        for (std::int64_t i = 0; i < channels * pixels; ++i) {
          planes[i] = to_pixel<T>(static_cast<float>(factor) * static_cast<float>(planes[i]));
        }
      });
}

Tensor adjust_contrast(const Tensor& image, double factor, const char* caller) {
  return changed(
      image, caller, [=]<typename T>(T* planes, std::int64_t pixels, std::int64_t channels) {
        const double mean = mean_gray(planes, pixels, channels);
        const auto offset = static_cast<float>((1 - factor) * mean);
        for (std::int64_t i = 0; i < channels * pixels; ++i) {
          planes[i] =
              to_pixel<T>(static_cast<float>(factor) * static_cast<float>(planes[i]) + offset);
        }
      });
}

Tensor adjust_saturation(const Tensor& image, double factor, const char* caller) {
  return changed(image, caller,
                 [=]<typename T>(T* planes, std::int64_t pixels, std::int64_t channels) {
                   if (channels != 3) return;
                   const auto f = static_cast<float>(factor);
                   change_colors(planes, pixels, [f](const Rgb& rgb) -> Rgb {
                     const float rest = (1 - f) * gray_in_steps<T>(rgb);
                     return {f * rgb[0] + rest, f * rgb[1] + rest, f * rgb[2] + rest};
                   });
                 });
}

Tensor adjust_hue(const Tensor& image, double turns, const char* caller) {
  return changed(image, caller,
                 [=]<typename T>(T* planes, std::int64_t pixels, std::int64_t channels) {
                   if (channels != 3) return;
                   // A float of 1 becomes the largest value, and all values share [0, 1] equally.
                   constexpr float kSteps = std::is_same_v<T, float> ? 1.0F : 255.999F;
                   change_colors(planes, pixels, [turns](const Rgb& rgb) -> Rgb {
                     Rgb hsv = to_hsv({rgb[0] / kWhite<T>, rgb[1] / kWhite<T>, rgb[2] / kWhite<T>});
                     const float turned = hsv[0] + static_cast<float>(turns);
                     hsv[0] = turned - std::floor(turned);
                     const Rgb result = to_rgb(hsv);
                     return {result[0] * kSteps, result[1] * kSteps, result[2] * kSteps};
                   });
                 });
}

}  // namespace hvd::data
