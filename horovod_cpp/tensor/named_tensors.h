#pragma once

#include <string>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Tensors with names, in an order that means something: what a state dict is.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace hvd
