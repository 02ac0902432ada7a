#pragma once

#include <functional>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Compares the gradients that backward gives with central differences, element by element.
// `function` must be deterministic; its result is weighted to a scalar by fixed numbers. Inputs
// that require grad are checked; they are float64 leaves. Throws InvalidArgumentError naming the
// input, the element and both numbers if they differ by more than tolerance * max(1, |expected|).
void gradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
               const std::vector<Tensor>& inputs, double eps = 1e-6, double tolerance = 1e-5);

// The same for second derivatives: the gradients themselves, weighted and summed, are the function.
void gradgradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
                   const std::vector<Tensor>& inputs, double eps = 1e-6, double tolerance = 1e-5);

}  // namespace hvd
