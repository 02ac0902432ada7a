#include "horovod_cpp/data/datasets.h"

#include <algorithm>
#include <cmath>
#include <string>
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

void check_index(std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  throw InvalidArgumentError("example " + std::to_string(index) + " of a dataset of " +
                             std::to_string(size));
}

TensorDataset::TensorDataset(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {
  if (tensors_.empty()) throw InvalidArgumentError("TensorDataset: no tensors");
  for (const Tensor& tensor : tensors_) {
    if (!tensor.defined() || tensor.dim() == 0) {
      throw InvalidArgumentError("TensorDataset: a tensor without a first axis");
    }
    if (tensor.size(0) != tensors_.front().size(0)) {
      throw InvalidArgumentError(
          "TensorDataset: first extents differ: " + to_string(tensors_.front().shape()) + " and " +
          to_string(tensor.shape()));
    }
  }
}

std::int64_t TensorDataset::size() const {
  return tensors_.front().size(0);
}

Sample TensorDataset::get(std::int64_t index) const {
  check_index(index, size());
  Sample sample;
  sample.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) sample.push_back(tensor.select(0, index));
  return sample;
}

Subset::Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  if (dataset_ == nullptr) throw InvalidArgumentError("Subset: no dataset");
  for (const std::int64_t index : indices_) check_index(index, dataset_->size());
}

Sample Subset::get(std::int64_t index) const {
  check_index(index, size());
  return dataset_->get(indices_[static_cast<std::size_t>(index)]);
}

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets)
    : datasets_(std::move(datasets)) {
  if (datasets_.empty()) throw InvalidArgumentError("ConcatDataset: no datasets");
  std::int64_t end = 0;
  for (const auto& dataset : datasets_) {
    if (dataset == nullptr) throw InvalidArgumentError("ConcatDataset: a dataset is missing");
    end += dataset->size();
    ends_.push_back(end);
  }
}

Sample ConcatDataset::get(std::int64_t index) const {
  check_index(index, size());
  const auto end = std::ranges::upper_bound(ends_, index);
  const std::int64_t begin = end == ends_.begin() ? 0 : *(end - 1);
  return datasets_[static_cast<std::size_t>(end - ends_.begin())]->get(index - begin);
}

TransformDataset::TransformDataset(std::shared_ptr<const Dataset> dataset,
                                   std::shared_ptr<const transforms::Transform> transform)
    : dataset_(std::move(dataset)), transform_(std::move(transform)) {
  if (dataset_ == nullptr) throw InvalidArgumentError("TransformDataset: no dataset");
  if (transform_ == nullptr) throw InvalidArgumentError("TransformDataset: no transform");
}

Sample TransformDataset::get(std::int64_t index) const {
  Sample sample = dataset_->get(index);
  if (sample.empty()) throw InvalidArgumentError("TransformDataset: an example without fields");
  sample.front() = (*transform_)(sample.front());
  return sample;
}

std::vector<std::shared_ptr<Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                  const std::vector<std::int64_t>& lengths,
                                                  Generator& generator) {
  if (dataset == nullptr) throw InvalidArgumentError("random_split: no dataset");
  std::int64_t total = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0) {
      throw InvalidArgumentError("random_split: a length of " + std::to_string(length));
    }
    total += length;
  }
  if (total != dataset->size()) {
    throw InvalidArgumentError("random_split: the lengths add up to " + std::to_string(total) +
                               ", the dataset has " + std::to_string(dataset->size()));
  }
  const std::vector<std::int64_t> order = generator.permutation(total);
  std::vector<std::shared_ptr<Subset>> parts;
  auto at = order.begin();
  for (const std::int64_t length : lengths) {
    parts.push_back(std::make_shared<Subset>(dataset, std::vector<std::int64_t>(at, at + length)));
    at += length;
  }
  return parts;
}

std::vector<std::shared_ptr<Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                  const std::vector<double>& fractions,
                                                  Generator& generator) {
  if (dataset == nullptr) throw InvalidArgumentError("random_split: no dataset");
  const std::int64_t size = dataset->size();
  double total = 0;
  std::int64_t left = size;
  std::vector<std::int64_t> lengths;
  for (const double fraction : fractions) {
    if (!(fraction >= 0 && fraction <= 1)) {
      throw InvalidArgumentError("random_split: a fraction of " + std::to_string(fraction));
    }
    total += fraction;
    lengths.push_back(static_cast<std::int64_t>(static_cast<double>(size) * fraction));
    left -= lengths.back();
  }
  if (std::abs(total - 1) > 1e-9) {
    throw InvalidArgumentError("random_split: the fractions add up to " + std::to_string(total));
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) ++lengths[i];
  return random_split(std::move(dataset), lengths, generator);
}

}  // namespace data
}  // namespace hvd
