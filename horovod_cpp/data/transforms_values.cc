#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/data/image_ops.h"
#include "horovod_cpp/data/transforms.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd {
namespace data {
namespace transforms {
namespace {

std::string describe(const Tensor& image) {
  return std::string(name_of(image.dtype())) + " " + to_string(image.shape());
}

Range factors_around_one(double x, const char* what) {
  if (!(x >= 0)) {
    throw InvalidArgumentError("ColorJitter: " + std::string(what) + " of " + std::to_string(x));
  }
  return {std::max(0.0, 1 - x), 1 + x};
}

void check_range(const Range& range, double least, double most, const char* what) {
  if (range.low >= least && range.low <= range.high && range.high <= most) return;
  throw InvalidArgumentError("ColorJitter: " + std::string(what) + " from " +
                             std::to_string(range.low) + " to " + std::to_string(range.high));
}

double draw(const Range& range) {
  return range.low + (range.high - range.low) * default_generator().uniform();
}

}  // namespace

Tensor ToTensor::operator()(const Tensor& image) const {
  check_image(image, "ToTensor");
  if (image.dtype() == DType::kF32) return image;
  if (image.dtype() != DType::kU8) {
    throw InvalidArgumentError("ToTensor: takes uint8 and float32, got " + describe(image));
  }
  const Tensor bytes = image.contiguous();
  Tensor result = Tensor::empty(bytes.shape());
  const auto* from = bytes.data<std::uint8_t>();
  auto* to = result.data<float>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) to[i] = static_cast<float>(from[i]) / 255.0F;
  return result;
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> deviation)
    : mean_(std::move(mean)), deviation_(std::move(deviation)) {
  if (mean_.empty() || mean_.size() != deviation_.size()) {
    throw InvalidArgumentError("Normalize: " + std::to_string(mean_.size()) + " means and " +
                               std::to_string(deviation_.size()) + " deviations");
  }
  for (const double deviation_of_channel : deviation_) {
    if (std::isfinite(deviation_of_channel) && deviation_of_channel != 0) continue;
    throw InvalidArgumentError("Normalize: a deviation of " + std::to_string(deviation_of_channel));
  }
}

Tensor Normalize::operator()(const Tensor& image) const {
  check_image(image, "Normalize");
  const auto channels = static_cast<std::size_t>(image.size(0));
  if (image.dtype() != DType::kF32 || (mean_.size() != 1 && mean_.size() != channels)) {
    throw InvalidArgumentError("Normalize: takes float32 (see ToTensor) with " +
                               std::to_string(mean_.size()) + " channels, got " + describe(image));
  }
  const Tensor whole = image.contiguous();
  Tensor result = Tensor::empty(whole.shape());
  const std::int64_t pixels = whole.size(1) * whole.size(2);
  const float* from = whole.data<float>();
  float* to = result.data<float>();
  for (std::size_t c = 0; c < channels; ++c, from += pixels, to += pixels) {
    const auto mean = static_cast<float>(mean_[mean_.size() == 1 ? 0 : c]);
    const auto deviation = static_cast<float>(deviation_[deviation_.size() == 1 ? 0 : c]);
    for (std::int64_t i = 0; i < pixels; ++i) to[i] = (from[i] - mean) / deviation;
  }
  return result;
}

ColorJitter::ColorJitter(double brightness, double contrast, double saturation, double hue)
    : ColorJitter(factors_around_one(brightness, "a brightness"),
                  factors_around_one(contrast, "a contrast"),
                  factors_around_one(saturation, "a saturation"), Range{-hue, hue}) {}

ColorJitter::ColorJitter(Range brightness, Range contrast, Range saturation, Range hue)
    : brightness_(brightness), contrast_(contrast), saturation_(saturation), hue_(hue) {
  constexpr double kNoLimit = 1e9;
  check_range(brightness_, 0, kNoLimit, "brightness");
  check_range(contrast_, 0, kNoLimit, "contrast");
  check_range(saturation_, 0, kNoLimit, "saturation");
  check_range(hue_, -0.5, 0.5, "hue");
}

Tensor ColorJitter::operator()(const Tensor& image) const {
  using Adjust = Tensor (*)(const Tensor&, double, const char*);
  constexpr std::array<Adjust, 4> kAdjust = {adjust_brightness, adjust_contrast, adjust_saturation,
                                             adjust_hue};
  const std::array<Range, 4> ranges = {brightness_, contrast_, saturation_, hue_};
  constexpr std::array<double, 4> kNeutral = {1, 1, 1, 0};
  check_image(image, "ColorJitter");
  Tensor result = image;
  for (const std::int64_t chosen : default_generator().permutation(4)) {
    const auto i = static_cast<std::size_t>(chosen);
    const double value = draw(ranges[i]);
    if (value != kNeutral[i]) result = kAdjust[i](result, value, "ColorJitter");
  }
  return result;
}

}  // namespace transforms
}  // namespace data
}  // namespace hvd
