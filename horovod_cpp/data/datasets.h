#pragma once

#include <memory>
#include <vector>

#include "horovod_cpp/data/dataset.h"

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

}  // namespace data
}  // namespace hvd
