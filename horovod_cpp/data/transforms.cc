#include "horovod_cpp/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/data/image_ops.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::data {
namespace {

// Word `position` of a seed's stream, as the seed of another stream.
std::uint64_t derived_seed(std::uint64_t seed, std::int64_t position) {
  Generator generator;
  generator.set_state({seed, static_cast<std::uint64_t>(position)});
  return generator.below(std::uint64_t{1} << 63);
}

}  // namespace

Generator example_generator(std::uint64_t seed, std::int64_t epoch, std::int64_t index) {
  return Generator(derived_seed(derived_seed(seed, epoch), index));
}

namespace transforms {
namespace {

std::string to_string(const ImageSize& size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width);
}

ImageSize checked(const ImageSize& size, const char* transform) {
  if (size.height < 1 || size.width < 1) {
    throw InvalidArgumentError(transform, ": a size of ", to_string(size));
  }
  return size;
}

double draw(const Range& range) {
  return range.low + (range.high - range.low) * default_generator().uniform();
}

std::int64_t draw_below(std::int64_t bound) {
  return static_cast<std::int64_t>(default_generator().below(static_cast<std::uint64_t>(bound)));
}

// Half of a margin; halves go to the even side, as Python's round() has it.
std::int64_t half(std::int64_t margin) {
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(margin) / 2));
}

// Where a centered window begins. A window larger than the image has the smaller half in front.
std::int64_t centered(std::int64_t extent, std::int64_t window) {
  return window > extent ? -((window - extent) / 2) : half(extent - window);
}

struct Window {
  std::int64_t top, left, height, width;
};

// The middle of the image with the nearest aspect in the range.
Window middle(std::int64_t height, std::int64_t width, const Range& ratio) {
  const auto h = static_cast<double>(height);
  const auto w = static_cast<double>(width);
  Window window{0, 0, height, width};
  if (w / h < ratio.low) {
    window.height = std::max<std::int64_t>(1, std::llrint(w / ratio.low));
  } else if (w / h > ratio.high) {
    window.width = std::max<std::int64_t>(1, std::llrint(h * ratio.high));
  }
  window.top = (height - window.height) / 2;
  window.left = (width - window.width) / 2;
  return window;
}

Window draw_window(std::int64_t height, std::int64_t width, const Range& scale,
                   const Range& ratio) {
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const Range log_ratio = {std::log(ratio.low), std::log(ratio.high)};
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * draw(scale);
    const double aspect = std::exp(draw(log_ratio));
    const std::int64_t w = std::llrint(std::sqrt(target * aspect));
    const std::int64_t h = std::llrint(std::sqrt(target / aspect));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const std::int64_t top = draw_below(height - h + 1);
    return {top, draw_below(width - w + 1), h, w};
  }
  return middle(height, width, ratio);
}

}  // namespace

Compose::Compose(std::vector<std::shared_ptr<const Transform>> steps) : steps_(std::move(steps)) {
  for (const auto& step : steps_) {
    if (step == nullptr) throw InvalidArgumentError("Compose: a transform is missing");
  }
}

Tensor Compose::operator()(const Tensor& image) const {
  Tensor result = image;
  for (const auto& step : steps_) result = (*step)(result);
  return result;
}

Lambda::Lambda(std::function<Tensor(const Tensor&)> function) : function_(std::move(function)) {
  if (function_ == nullptr) throw InvalidArgumentError("Lambda: no function");
}

Resize::Resize(std::int64_t shorter_side)
    : size_(checked(shorter_side, "Resize")), keeps_proportion_(true) {}

Resize::Resize(ImageSize size) : size_(checked(size, "Resize")), keeps_proportion_(false) {}

Tensor Resize::operator()(const Tensor& image) const {
  check_image(image, "Resize");
  if (!keeps_proportion_) return resize(image, size_.height, size_.width, "Resize");
  const std::int64_t side = size_.height;
  const std::int64_t height = image.size(1);
  const std::int64_t width = image.size(2);
  if (width <= height) return resize(image, side * height / width, side, "Resize");
  return resize(image, side, side * width / height, "Resize");
}

CenterCrop::CenterCrop(ImageSize size) : size_(checked(size, "CenterCrop")) {}

Tensor CenterCrop::operator()(const Tensor& image) const {
  check_image(image, "CenterCrop");
  return crop(image, centered(image.size(1), size_.height), centered(image.size(2), size_.width),
              size_.height, size_.width, "CenterCrop");
}

RandomCrop::RandomCrop(ImageSize size, std::int64_t padding)
    : size_(checked(size, "RandomCrop")), padding_(padding) {
  if (padding < 0) throw InvalidArgumentError("RandomCrop: a padding of ", padding);
}

Tensor RandomCrop::operator()(const Tensor& image) const {
  check_image(image, "RandomCrop");
  const std::int64_t rows = image.size(1) + 2 * padding_ - size_.height;
  const std::int64_t columns = image.size(2) + 2 * padding_ - size_.width;
  if (rows < 0 || columns < 0) {
    throw InvalidArgumentError("RandomCrop: a crop of ", to_string(size_), " from an image ",
                               image.shape(), " padded by ", padding_);
  }
  const std::int64_t top = draw_below(rows + 1) - padding_;
  const std::int64_t left = draw_below(columns + 1) - padding_;
  return crop(image, top, left, size_.height, size_.width, "RandomCrop");
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, Range scale, Range ratio)
    : size_(checked(size, "RandomResizedCrop")), scale_(scale), ratio_(ratio) {
  if (!(scale.low > 0 && scale.low <= scale.high && scale.high <= 1) ||
      !(ratio.low > 0 && ratio.low <= ratio.high)) {
    throw InvalidArgumentError("RandomResizedCrop: scale ", scale.low, " to ", scale.high,
                               " and ratio ", ratio.low, " to ", ratio.high,
                               ": expected 0 < low <= high, and a scale of at most 1");
  }
}

Tensor RandomResizedCrop::operator()(const Tensor& image) const {
  check_image(image, "RandomResizedCrop");
  const Window window = draw_window(image.size(1), image.size(2), scale_, ratio_);
  const Tensor piece =
      crop(image, window.top, window.left, window.height, window.width, "RandomResizedCrop");
  return resize(piece, size_.height, size_.width, "RandomResizedCrop");
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  if (!(p >= 0 && p <= 1)) throw InvalidArgumentError("RandomHorizontalFlip: probability ", p);
}

Tensor RandomHorizontalFlip::operator()(const Tensor& image) const {
  check_image(image, "RandomHorizontalFlip");
  if (default_generator().uniform() >= p_) return image;
  return flip_horizontal(image, "RandomHorizontalFlip");
}

namespace {

Range factors_around_one(double x, const char* what) {
  if (!(x >= 0)) {
    throw InvalidArgumentError("ColorJitter: ", what, " of ", x);
  }
  return {std::max(0.0, 1 - x), 1 + x};
}

void check_range(const Range& range, double least, double most, const char* what) {
  if (range.low >= least && range.low <= range.high && range.high <= most) return;
  throw InvalidArgumentError("ColorJitter: ", what, " from ", range.low, " to ", range.high);
}

}  // namespace

Tensor ToTensor::operator()(const Tensor& image) const {
  check_image(image, "ToTensor");
  if (image.dtype() == DType::kF32) return image;
  if (image.dtype() != DType::kU8) refuse_dtype(image, "ToTensor");
  return unit_floats(image);
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> deviation)
    : mean_(std::move(mean)), deviation_(std::move(deviation)) {
  if (mean_.empty() || mean_.size() != deviation_.size()) {
    throw InvalidArgumentError("Normalize: ", mean_.size(), " means and ", deviation_.size(),
                               " deviations");
  }
  for (const double deviation_of_channel : deviation_) {
    if (std::isfinite(deviation_of_channel) && deviation_of_channel != 0) continue;
    throw InvalidArgumentError("Normalize: a deviation of ", deviation_of_channel);
  }
}

Tensor Normalize::operator()(const Tensor& image) const {
  check_image(image, "Normalize");
  const auto channels = static_cast<std::size_t>(image.size(0));
  if (image.dtype() != DType::kF32 || (mean_.size() != 1 && mean_.size() != channels)) {
    throw InvalidArgumentError("Normalize: takes float32 (see ToTensor) with ", mean_.size(),
                               " channels, got ", describe(image));
  }
  const Tensor whole = kernels::contiguous(image);
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
    : ranges_{brightness, contrast, saturation, hue} {
  constexpr double kNoLimit = 1e9;
  check_range(brightness, 0, kNoLimit, "brightness");
  check_range(contrast, 0, kNoLimit, "contrast");
  check_range(saturation, 0, kNoLimit, "saturation");
  check_range(hue, -0.5, 0.5, "hue");
}

Tensor ColorJitter::operator()(const Tensor& image) const {
  using Adjust = Tensor (*)(const Tensor&, double, const char*);
  constexpr std::array<Adjust, 4> kAdjust = {adjust_brightness, adjust_contrast, adjust_saturation,
                                             adjust_hue};
  constexpr std::array<double, 4> kNeutral = {1, 1, 1, 0};
  check_image(image, "ColorJitter");
  Tensor result = image;
  for (const std::int64_t chosen : default_generator().permutation(4)) {
    const auto i = static_cast<std::size_t>(chosen);
    const double value = draw(ranges_[i]);
    if (value != kNeutral[i]) result = kAdjust[i](result, value, "ColorJitter");
  }
  return result;
}

}  // namespace transforms
}  // namespace hvd::data
