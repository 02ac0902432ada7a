#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <type_traits>

#include "core/base/status.h"
#include "horovod_cpp/data/image_ops.h"

namespace hvd {
namespace data {
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

// Calls use(T*, pixels of a channel) on a contiguous copy, and returns the copy.
template <typename Use>
Tensor changed(const Tensor& image, const char* caller, Use use) {
  check_image(image, caller);
  if (image.size(0) != 1 && image.size(0) != 3) {
    throw InvalidArgumentError(std::string(caller) + ": takes one channel or three, got " +
                               to_string(image.shape()));
  }
  Tensor copy = image.clone();
  const std::int64_t pixels = copy.size(1) * copy.size(2);
  if (copy.dtype() == DType::kU8) {
    use(copy.data<std::uint8_t>(), pixels);
  } else if (copy.dtype() == DType::kF32) {
    use(copy.data<float>(), pixels);
  } else {
    throw InvalidArgumentError(std::string(caller) + ": takes uint8 and float32, got " +
                               std::string(name_of(copy.dtype())) + " " + to_string(copy.shape()));
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
  const std::int64_t channels = image.defined() && image.dim() > 0 ? image.size(0) : 0;
  return changed(image, caller, [&]<typename T>(T* planes, std::int64_t pixels) {
    for (std::int64_t i = 0; i < channels * pixels; ++i) {
      planes[i] = to_pixel<T>(static_cast<float>(factor) * static_cast<float>(planes[i]));
    }
  });
}

Tensor adjust_contrast(const Tensor& image, double factor, const char* caller) {
  const std::int64_t channels = image.defined() && image.dim() > 0 ? image.size(0) : 0;
  return changed(image, caller, [&]<typename T>(T* planes, std::int64_t pixels) {
    const double mean = mean_gray(planes, pixels, channels);
    const auto offset = static_cast<float>((1 - factor) * mean);
    for (std::int64_t i = 0; i < channels * pixels; ++i) {
      planes[i] = to_pixel<T>(static_cast<float>(factor) * static_cast<float>(planes[i]) + offset);
    }
  });
}

Tensor adjust_saturation(const Tensor& image, double factor, const char* caller) {
  const bool colored = image.defined() && image.dim() > 0 && image.size(0) == 3;
  return changed(image, caller, [&]<typename T>(T* planes, std::int64_t pixels) {
    if (!colored) return;
    const auto f = static_cast<float>(factor);
    change_colors(planes, pixels, [f](const Rgb& rgb) -> Rgb {
      const float rest = (1 - f) * gray_in_steps<T>(rgb);
      return {f * rgb[0] + rest, f * rgb[1] + rest, f * rgb[2] + rest};
    });
  });
}

Tensor adjust_hue(const Tensor& image, double turns, const char* caller) {
  const bool colored = image.defined() && image.dim() > 0 && image.size(0) == 3;
  return changed(image, caller, [&]<typename T>(T* planes, std::int64_t pixels) {
    if (!colored) return;
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

}  // namespace data
}  // namespace hvd
