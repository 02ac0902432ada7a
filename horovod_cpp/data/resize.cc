#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/data/image_ops.h"

namespace hvd {
namespace data {
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
  if (image.size(1) == height && image.size(2) == width) return image.clone();
  if (image.dtype() == DType::kU8) return resize_both<Bytes>(image.contiguous(), height, width);
  if (image.dtype() == DType::kF32) return resize_both<Floats>(image.contiguous(), height, width);
  throw InvalidArgumentError(std::string(caller) + ": takes uint8 and float32, got " +
                             std::string(name_of(image.dtype())) + " " + to_string(image.shape()));
}

}  // namespace data
}  // namespace hvd
