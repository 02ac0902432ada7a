#pragma once

#include "core/base/dtype.h"

namespace hvd {
namespace optim {

// Name of the float32 copy in the state of a half-precision parameter.
inline constexpr const char* kMasterParam = "master_param";

inline bool is_half(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

}  // namespace optim
}  // namespace hvd
