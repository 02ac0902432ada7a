#pragma once

#include <optional>

#include "horovod_cpp/tensor/tensor.h"

// Reading and writing at positions that an int64 tensor gives. Positions are checked before
// anything is written: one outside [0, extent) throws InvalidArgumentError naming `function`, the
// position and the extent. Any dtype, unless a comment says otherwise.
namespace hvd::kernels {

// out[i][j] = a[index[i][j]][j] for axis 0, and so on. `index` has as many axes as `a` and reaches,
// but along `axis`, no further; the result has its shape.
Tensor gather(const Tensor& a, std::int64_t axis, const Tensor& index, const char* function);
// target[index[i][j]][j] = (or +=) source[i][j]; `source` reaches as far as `index` at least. Of
// several writes to one element the last in row-major order stays. Adding takes arithmetic dtypes.
// The memory of `target` may be that of the others: they are read first.
void scatter(const Tensor& target, std::int64_t axis, const Tensor& index, const Tensor& source,
             bool add, const char* function);

// The slices of `a` at index[0], index[1], ... (one axis) along `axis`.
Tensor index_select(const Tensor& a, std::int64_t axis, const Tensor& index, const char* function);
// target's slice at index[i] += alpha * source's slice at i. Arithmetic dtypes; those of integers
// take a whole `alpha`.
void index_add(const Tensor& target, std::int64_t axis, const Tensor& index, const Tensor& source,
               double alpha, const char* function);

// Row-major positions of what is not 0, int64 [count].
Tensor flat_nonzero(const Tensor& a);

// Positions in the row-major grid of `extents` of the points whose coordinates the (broadcast)
// tensors of `indices` are; negative ones count from the end.
Tensor flat_positions(const std::vector<Tensor>& indices, const Shape& extents,
                      const char* function);

// -- rows: what lies under one index of the first axis. `rows` is int64 [k] and within the table's
// first axis: the caller has checked. Tensors may have any strides, but what is written may not be
// expanded.

// [k, ...]: the table's rows in the order of `rows`; any dtype.
Tensor gather_rows(const Tensor& table, const Tensor& rows);

// table[rows[i]] += values[i], in order. `table` is of a floating dtype, `values`
// [k, ...] has its dtype; half types round after each row.
void add_rows(const Tensor& table, const Tensor& rows, const Tensor& values);

}  // namespace hvd::kernels
