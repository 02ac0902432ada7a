#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"

namespace hvd {
namespace nn {

// Throws InvalidArgumentError naming layer, argument and value unless value >= least.
inline void check_at_least(const char* layer, const char* argument, std::int64_t value,
                           std::int64_t least) {
  if (value >= least) return;
  throw InvalidArgumentError(std::string(layer) + ": " + argument + "=" + std::to_string(value) +
                             ": expected at least " + std::to_string(least));
}

inline void check_positive(const char* layer, const char* argument, std::int64_t value) {
  check_at_least(layer, argument, value, 1);
}

}  // namespace nn
}  // namespace hvd
