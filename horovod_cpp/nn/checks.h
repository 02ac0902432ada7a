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

// The same for a number from 0 to 1, which a NaN is not.
inline void check_fraction(const char* layer, const char* argument, double value) {
  if (value >= 0 && value <= 1) return;
  throw InvalidArgumentError(std::string(layer) + ": " + argument + "=" + std::to_string(value) +
                             ": expected 0 <= " + argument + " <= 1");
}

// What is added to a variance before its root is taken.
inline void check_eps(const char* layer, double eps) {
  if (eps >= 0) return;
  throw InvalidArgumentError(std::string(layer) + ": eps=" + std::to_string(eps) +
                             ": expected at least 0");
}

inline void check_positive(const char* layer, const char* argument, std::int64_t value) {
  check_at_least(layer, argument, value, 1);
}

}  // namespace nn
}  // namespace hvd
