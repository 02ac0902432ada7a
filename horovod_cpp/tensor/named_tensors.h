#pragma once

#include <string>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Tensors by name, in a fixed order: parameters, a state dict, a checkpoint's content.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

}  // namespace hvd
