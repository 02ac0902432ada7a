#pragma once

#include <vector>

#include "horovod_cpp/tensor/tensor.h"

// Functions of rows. `rows` is contiguous; its last axis is what they run along.
namespace hvd {
namespace kernels {

// Sums of the first 1, 2, ... elements (of the last ones if `reverse`). Integers and bools add up
// in int64, floats in double.
Tensor cumsum(const Tensor& rows, bool reverse);
// Product of each row, without the last axis. Integers and bools in int64, floats in double.
Tensor prod(const Tensor& rows);
// What each element of a float32 or float64 row is multiplied with in the row's product.
Tensor prod_of_others(const Tensor& rows);
// The stable order of each row, int64. A NaN counts as larger than any number.
Tensor argsort(const Tensor& rows, bool descending);
// How often 0, 1, 2, ... occur in a contiguous int64 tensor; int64, at least `length` of them.
Tensor bincount(const Tensor& values, std::int64_t length);

}  // namespace kernels
}  // namespace hvd
