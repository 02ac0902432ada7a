#pragma once

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// [..., in_features] -> [..., out_features]: input * weight^T + bias, with weight
// [out_features, in_features] and bias [out_features]. Starts as PyTorch's (init::layer_default_).
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;
  Tensor bias;  // undefined without one
};

}  // namespace nn
}  // namespace hvd
