#pragma once

#include <memory>
#include <vector>

#include "horovod_cpp/data/dataset.h"
#include "horovod_cpp/data/transform.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd {
namespace data {

// Example i is {tensors[0][i], tensors[1][i], ...}: views, not copies. Throws InvalidArgumentError
// when there is no tensor, one is a scalar, or their first extents differ.
class TensorDataset : public Dataset {
 public:
  explicit TensorDataset(std::vector<Tensor> tensors);
  std::int64_t size() const override;
  Sample get(std::int64_t index) const override;

 private:
  std::vector<Tensor> tensors_;
};

// The examples of `dataset` at `indices`, in that order. Throws InvalidArgumentError naming the
// first index that is outside of it.
class Subset : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Sample get(std::int64_t index) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<std::int64_t> indices_;
};

// The examples of several datasets, one after the other. Throws InvalidArgumentError without any.
class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> datasets);
  std::int64_t size() const override { return ends_.back(); }
  Sample get(std::int64_t index) const override;

 private:
  std::vector<std::shared_ptr<const Dataset>> datasets_;
  std::vector<std::int64_t> ends_;  // of each dataset, in examples from the first one's beginning
};

// Examples of `dataset` whose first field, the image, went through `transform`. Throws
// InvalidArgumentError without the one or the other, and in get() on an example without fields.
class TransformDataset : public Dataset {
 public:
  TransformDataset(std::shared_ptr<const Dataset> dataset,
                   std::shared_ptr<const transforms::Transform> transform);
  std::int64_t size() const override { return dataset_->size(); }
  Sample get(std::int64_t index) const override;

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::shared_ptr<const transforms::Transform> transform_;
};

// Splits a dataset at random into parts of the given lengths that do not overlap. Throws
// InvalidArgumentError unless the lengths are at least 0 and add up to the dataset's size.
std::vector<std::shared_ptr<Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                  const std::vector<std::int64_t>& lengths,
                                                  Generator& generator = default_generator());
// Lengths as fractions of the size, rounded down; what is left goes one each to the parts from the
// first on. Throws InvalidArgumentError unless they are at least 0 and add up to 1.
std::vector<std::shared_ptr<Subset>> random_split(std::shared_ptr<const Dataset> dataset,
                                                  const std::vector<double>& fractions,
                                                  Generator& generator = default_generator());

}  // namespace data
}  // namespace hvd
