#pragma once

#include <optional>

#include "horovod_cpp/tensor/tensor.h"

// More element-wise functions; see functions.h for what they have in common.
namespace hvd {

// These four take integers too.
Tensor abs(const Tensor& a);   // its slope at 0 is 0
Tensor sign(const Tensor& a);  // -1, 0 or 1; its slope is 0
Tensor square(const Tensor& a);
// Within [min, max]; a bound that is not given does not bound. The gradient passes at the bounds.
// Throws InvalidArgumentError without any bound.
Tensor clamp(const Tensor& a, std::optional<double> min, std::optional<double> max = {});
// The same with bounds that broadcast, are converted to a's dtype and have gradients:
// where a bound is the result it gets the gradient, `a` at the bounds. An undefined one does not
// bound; a NaN as bound is the result.
Tensor clamp(const Tensor& a, const Tensor& min, const Tensor& max);

// Floating dtypes.
Tensor reciprocal(const Tensor& a);
Tensor rsqrt(const Tensor& a);  // 1 / sqrt(a)
Tensor sin(const Tensor& a);
Tensor cos(const Tensor& a);
Tensor erf(const Tensor& a);
Tensor log1p(const Tensor& a);  // log(1 + a)

// The larger, or smaller, of each pair; a NaN wins, equal ones share the gradient. Any real dtype.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

}  // namespace hvd
