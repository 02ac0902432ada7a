#pragma once

#include <functional>
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

// Compares the gradients that backward gives with central differences, element by element.
// `function` must be deterministic; its result is weighted to a scalar by fixed numbers. Inputs
// that require grad are checked; they are float64 leaves. Throws InvalidArgumentError naming the
// input, the element and both numbers if they differ by more than tolerance * max(1, |expected|).
void gradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
               const std::vector<Tensor>& inputs, double eps = 1e-6, double tolerance = 1e-5);

// The same for second derivatives: the gradients themselves, weighted and summed, are the function.
// They are also compared with those of a backward without create_graph.
void gradgradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
                   const std::vector<Tensor>& inputs, double eps = 1e-6, double tolerance = 1e-5);

}  // namespace hvd
