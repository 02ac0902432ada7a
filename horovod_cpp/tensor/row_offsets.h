#pragma once

#include <cstdint>
#include <vector>

namespace hvd {
namespace kernels {

// Where the rows of a dense matrix begin: what Kernels::transpose takes of each side.
inline std::vector<std::int64_t> row_offsets(std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> offsets;
  offsets.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) offsets.push_back(row * columns);
  return offsets;
}

}  // namespace kernels
}  // namespace hvd
