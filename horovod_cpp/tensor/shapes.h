#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

// Arithmetic on shapes. `function` is named in errors, all of which are InvalidArgumentError.
namespace hvd::shapes {

std::vector<std::int64_t> row_major_strides(const Shape& shape);

// Axis in [0, dim); a negative one counts from the end.
std::int64_t axis(std::int64_t axis, std::int64_t dim, const char* function);

// Which of `dim` axes are named; all if `axes` is empty. A repeated axis is an error.
std::vector<bool> axis_mask(const std::vector<std::int64_t>& axes, std::int64_t dim,
                            const char* function);

// NumPy's rule: align at the end, extents are equal or one of them is 1.
Shape broadcast(const Shape& a, const Shape& b, const char* function);

// Strides that read a tensor of `shape` and `strides` as `target`; 0 where it repeats.
std::vector<std::int64_t> broadcast_strides(const Shape& shape,
                                            const std::vector<std::int64_t>& strides,
                                            const Shape& target, const char* function);

// `shape` without the axes of `mask`, or with 1 in their place.
Shape reduced(const Shape& shape, const std::vector<bool>& mask, bool keepdim);

void require_same_dtype(const Tensor& a, const Tensor& b, const char* function);
void require_floating(const Tensor& tensor, const char* function);
// f32 or f64
void require_float(const Tensor& tensor, const char* function);
void require_dim(const Tensor& tensor, std::int64_t dim, const char* function, const char* what);

}  // namespace hvd::shapes

// Tensors over the same memory, outside the graph. Errors are InvalidArgumentError naming
// `function` or the operation, the shape and the argument.
namespace hvd::kernels {

// `shape` with its one -1, if any, replaced so that it has `numel` elements.
Shape inferred_shape(const Shape& shape, const Tensor& a, const char* function);

Tensor reshape(const Tensor& a, const Shape& shape);  // copies if no view is possible
Tensor permute(const Tensor& a, const std::vector<std::int64_t>& axes);
Tensor slice(const Tensor& a, std::int64_t axis, std::int64_t begin, std::int64_t end,
             std::int64_t step = 1);
Tensor select(const Tensor& a, std::int64_t axis, std::int64_t index);
Tensor expand(const Tensor& a, const Shape& shape);
Tensor alias(const Tensor& a);  // the whole of it

}  // namespace hvd::kernels
