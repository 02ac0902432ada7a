#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Rows are what lies under one index of the first axis. `rows` is int64 and within the table's
// first axis: the caller has checked. Tensors may have any strides, but what is written may not be
// expanded.
namespace hvd {
namespace kernels {

// [k, ...]: the table's rows in the order of `rows`; any dtype.
Tensor gather_rows(const Tensor& table, const Tensor& rows);

// table[rows[i]] += values[i], in order. `table` is of a floating dtype, `values`
// [k, ...] has its dtype; half types round after each row.
void add_rows(const Tensor& table, const Tensor& rows, const Tensor& values);

}  // namespace kernels
}  // namespace hvd
