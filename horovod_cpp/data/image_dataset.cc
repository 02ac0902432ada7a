#include "horovod_cpp/data/image_dataset.h"

#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace data {

ImageDataset::ImageDataset(Tensor images, Tensor labels, PixelFormat format)
    : images_(images.contiguous()), labels_(labels.contiguous()), format_(format) {
  if (images_.dtype() != DType::kU8 || images_.dim() != 4) {
    throw InvalidArgumentError("ImageDataset: images are " + std::string(name_of(images_.dtype())) +
                               " " + to_string(images_.shape()) +
                               ": expected uint8 [n, channels, height, width]");
  }
  if (labels_.dtype() != DType::kI64 || labels_.dim() != 1 || labels_.size(0) != images_.size(0)) {
    throw InvalidArgumentError("ImageDataset: labels are " + std::string(name_of(labels_.dtype())) +
                               " " + to_string(labels_.shape()) + ": expected int64 [" +
                               std::to_string(images_.size(0)) + "], one for each image");
  }
}

Sample ImageDataset::get(std::int64_t index) const {
  check_index(index, size());
  const Tensor stored = images_.select(0, index);
  const Tensor label = labels_.select(0, index);
  if (format_ == PixelFormat::kU8) return {stored, label};
  Tensor image = Tensor::empty(stored.shape(), DType::kF32);
  const auto* from = stored.data<std::uint8_t>();
  float* to = image.data<float>();
  for (std::int64_t i = 0; i < stored.numel(); ++i) to[i] = static_cast<float>(from[i]) / 255.0f;
  return {image, label};
}

}  // namespace data
}  // namespace hvd
