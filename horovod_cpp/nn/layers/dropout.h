#pragma once

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// In training: zeroes each element with probability p and scales the rest by 1 / (1 - p), drawing
// from the thread's default generator. In evaluation: the input itself.
class Dropout : public Module {
 public:
  // Throws InvalidArgumentError unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double p_;
};

}  // namespace nn
}  // namespace hvd
