#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

// More reductions and what is found by ordering. Axes as in functions.h: negative ones count from
// the end, none given means all.
namespace hvd {

struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  // int64, positions along the axis
};

// The largest, or smallest, elements along an axis, which goes unless keepdim, and the first of
// their positions. The gradient goes to that position; a NaN wins. Throws InvalidArgumentError when
// the axis is empty.
ValuesAndIndices max(const Tensor& a, std::int64_t axis, bool keepdim = false);
ValuesAndIndices min(const Tensor& a, std::int64_t axis, bool keepdim = false);
// The smallest element as a scalar.
Tensor min(const Tensor& a);
// Positions of the (first) smallest elements, int64; not differentiable. Without an axis: in the
// row-major order of all elements.
Tensor argmin(const Tensor& a, std::int64_t axis, bool keepdim = false);
Tensor argmin(const Tensor& a);

// Mean squared distance from the mean, the sum divided by count - correction, and its root. A count
// of correction or less gives NaN. Floating dtypes. Where std is 0 its gradient is 0 too.
Tensor var(const Tensor& a, std::vector<std::int64_t> axes = {}, double correction = 1.0,
           bool keepdim = false);
Tensor std(const Tensor& a, std::vector<std::int64_t> axes = {}, double correction = 1.0,
           bool keepdim = false);
// (sum |a|^p)^(1/p); p may be infinity (the largest |a|). Floating dtypes. The gradient of a norm
// of 0 is 0. Throws InvalidArgumentError unless p > 0.
Tensor norm(const Tensor& a, double p = 2.0, std::vector<std::int64_t> axes = {},
            bool keepdim = false);

// Integers and bools multiply and add up in int64.
Tensor prod(const Tensor& a);
Tensor prod(const Tensor& a, std::int64_t axis, bool keepdim = false);
// Running sums along an axis.
Tensor cumsum(const Tensor& a, std::int64_t axis);

// In stable order along an axis, NaN last (first if descending). The values are differentiable.
ValuesAndIndices sort(const Tensor& a, std::int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor& a, std::int64_t axis = -1, bool descending = false);
// The first k of them. Throws InvalidArgumentError unless 0 <= k <= extent.
ValuesAndIndices topk(const Tensor& a, std::int64_t k, std::int64_t axis = -1, bool largest = true);
// How often 0, 1, 2, ... occur among the non-negative int64 elements; int64, at least `minlength`
// counts.
Tensor bincount(const Tensor& a, std::int64_t minlength = 0);

}  // namespace hvd
