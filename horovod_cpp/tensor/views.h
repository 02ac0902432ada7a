#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Tensors over the same memory, outside the graph. Errors are InvalidArgumentError naming
// `function` or the operation, the shape and the argument.
namespace hvd {
namespace kernels {

// `shape` with its one -1, if any, replaced so that it has `numel` elements.
Shape inferred_shape(const Shape& shape, const Tensor& a, const char* function);

Tensor reshape(const Tensor& a, const Shape& shape);  // copies if no view is possible
Tensor permute(const Tensor& a, const std::vector<std::int64_t>& axes);
Tensor slice(const Tensor& a, std::int64_t axis, std::int64_t begin, std::int64_t end,
             std::int64_t step = 1);
Tensor select(const Tensor& a, std::int64_t axis, std::int64_t index);
Tensor expand(const Tensor& a, const Shape& shape);
Tensor alias(const Tensor& a);  // the whole of it

}  // namespace kernels
}  // namespace hvd
