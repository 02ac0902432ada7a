#pragma once

#include <cstdint>
#include <optional>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// weight [count, dim], indices int64 of any shape -> [..., dim]: a row for each index. The row
// `padding_idx` (negative: from the end) gets no gradient. With `sparse` the weight's gradient
// keeps only the rows that were read (row_gradient.h). Throws InvalidArgumentError naming an index
// that is no row.
Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx = std::nullopt, bool sparse = false);

}  // namespace hvd
