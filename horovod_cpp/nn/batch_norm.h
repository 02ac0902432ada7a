#pragma once

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// Normalises each channel of [n, num_features, h, w] (Ioffe, Szegedy: "Batch normalization", ICML
// 2015). In training it uses the batch's statistics and moves the running ones by `momentum`; in
// evaluation it uses the running ones.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(std::int64_t num_features, double eps = 1e-5, double momentum = 0.1);
  Tensor forward(const Tensor& input) override;

  Tensor weight;               // [num_features], starts at 1
  Tensor bias;                 // [num_features], starts at 0
  Tensor running_mean;         // [num_features], starts at 0
  Tensor running_var;          // [num_features], starts at 1
  Tensor num_batches_tracked;  // int64 scalar

 private:
  double eps_;
  double momentum_;
};

}  // namespace nn
}  // namespace hvd
