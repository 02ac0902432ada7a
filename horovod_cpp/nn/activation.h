#pragma once

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// max(input, 0), elementwise.
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& input) override;
};

}  // namespace nn
}  // namespace hvd
