#pragma once

#include <cstdint>
#include <optional>

#include "core/base/dtype.h"
#include "core/base/tensor_view.h"

namespace hvd {

// Bytes of a tensor of this shape. None if an extent is negative, or if those other than 0 multiply
// to more than 2^63 bytes, wherever a 0 stands: [0, 2^62, 4] holds nothing, but its strides
// overflow. For shapes of peers and files.
std::optional<std::int64_t> checked_bytes(const Shape& shape, DType dtype);

}  // namespace hvd
