#include "horovod_cpp/data/datasets.h"

#include <string>
#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace data {

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

}  // namespace data
}  // namespace hvd
