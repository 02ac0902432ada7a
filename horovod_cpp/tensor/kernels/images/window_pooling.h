#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace kernels {

// What one output position reads along one axis: the elements [begin, end). Means divide by the
// product of the two axes' extents, which may count padding.
struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t extent = 0;
};
using Spans = std::vector<Span>;

// Pooling of [n, c, h, w] (f32, f64) over the windows rows x columns -> [n, c, rows, columns].
// Windows are not empty, lie within h and w and may overlap.
struct Largest {
  Tensor values;
  Tensor index;  // int64: where in its plane each came from; the first of several, and a NaN, wins
};
Largest window_max(const Tensor& input, const Spans& rows, const Spans& columns);
Tensor window_max_grad(const Tensor& grad, const Tensor& index, const Shape& input_shape);

Tensor window_mean(const Tensor& input, const Spans& rows, const Spans& columns);
Tensor window_mean_grad(const Tensor& grad, const Spans& rows, const Spans& columns,
                        const Shape& input_shape);

}  // namespace kernels
}  // namespace hvd
