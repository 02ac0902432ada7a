#pragma once

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// Normalises over the last axes, which have the shape `normalized_shape`
// (autograd/functions/functions.h).
class LayerNorm : public Module {
 public:
  explicit LayerNorm(Shape normalized_shape, double eps = 1e-5, bool elementwise_affine = true);
  explicit LayerNorm(std::int64_t features, double eps = 1e-5, bool elementwise_affine = true);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;  // starts at 1; undefined unless elementwise_affine
  Tensor bias;    // starts at 0; undefined unless elementwise_affine

 private:
  Shape normalized_shape_;
  double eps_;
};

// Normalises each of num_groups groups of channels of each example of [n, num_channels, ...].
class GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps = 1e-5,
            bool affine = true);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;  // [num_channels], starts at 1; undefined unless affine
  Tensor bias;    // [num_channels], starts at 0; undefined unless affine

 private:
  std::int64_t num_groups_;
  std::int64_t num_channels_;
  double eps_;
};

}  // namespace nn
}  // namespace hvd
