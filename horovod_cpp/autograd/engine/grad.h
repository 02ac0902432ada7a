#pragma once

#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// The gradients of `outputs` with respect to `inputs`, leaves or results of operations, without
// touching any Tensor::grad() or hook. grad_outputs, one for each output, may be left out for
// outputs of numel 1. A result is undefined if no output depends on its input. Throws
// InvalidArgumentError if an input does not require grad, shapes do not fit or the graph was freed.
// create_graph (implies retain_graph) records the gradients, so that they can be differentiated
// again; where an operation on the way has no second derivative here, that second backward() throws
// InvalidArgumentError naming it.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, bool retain_graph = false,
                         bool create_graph = false);

}  // namespace hvd
