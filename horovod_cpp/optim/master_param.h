#pragma once

#include "core/base/dtype.h"

namespace hvd {
namespace optim {

// Name of the float32 copy in the state of a half-precision parameter.
inline constexpr const char* kMasterParam = "master_param";

}  // namespace optim
}  // namespace hvd
