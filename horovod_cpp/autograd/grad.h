#pragma once

#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// The gradients of `outputs` with respect to `inputs`, leaves or results of operations, without
// touching any Tensor::grad() or hook. grad_outputs, one for each output, may be left out for
// outputs of numel 1. A result is undefined if no output depends on its input. Throws
// InvalidArgumentError if an input does not require grad, shapes do not fit or the graph was freed.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, bool retain_graph = false);

}  // namespace hvd
