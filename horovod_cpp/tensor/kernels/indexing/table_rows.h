#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Rows are what lies under one index of the first axis. `rows` is int64, contiguous, and within the
// table's first axis: the caller has checked.
namespace hvd {
namespace kernels {

// [k, ...]: the table's rows in the order of `rows`; any dtype.
Tensor gather_rows(const Tensor& table, const Tensor& rows);

// table[rows[i]] += values[i], in order. `table` is contiguous and of a floating dtype, `values`
// [k, ...] has its dtype; half types round after each row.
void add_rows(const Tensor& table, const Tensor& rows, const Tensor& values);

}  // namespace kernels
}  // namespace hvd
