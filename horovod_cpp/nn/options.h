#pragma once

#include <cstdint>
#include <string>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "horovod_cpp/autograd/functions/convolution.h"

namespace hvd::nn {

// Throws InvalidArgumentError naming layer, argument and value unless value >= least.
inline void check_at_least(const char* layer, const char* argument, std::int64_t value,
                           std::int64_t least) {
  if (value >= least) return;
  throw InvalidArgumentError(layer, ": ", argument, "=", value, ": expected at least ", least);
}

// The same for a number from 0 to 1, which a NaN is not.
inline void check_fraction(const char* layer, const char* argument, double value) {
  if (value >= 0 && value <= 1) return;
  throw InvalidArgumentError(layer, ": ", argument, "=", value, ": expected 0 <= ", argument,
                             " <= 1");
}

// What is added to a variance before its root is taken.
inline void check_eps(const char* layer, double eps) {
  if (eps >= 0) return;
  throw InvalidArgumentError(layer, ": eps=", eps, ": expected at least 0");
}

inline void check_positive(const char* layer, const char* argument, std::int64_t value) {
  check_at_least(layer, argument, value, 1);
}

// Options as Module::extra_repr() prints them: Python's words, since PyTorch prints them so.

std::string text_of(double value);         // "0.5", "1.0", "1e-05"
std::string text_of(bool value);           // "True", "False"
std::string text_of(const Shape& values);  // "(3, 4)", "(3,)"
// "3" where both are equal, else "(3, 4)".
std::string text_of(const IntPair& pair);

inline Shape shape_of(const IntPair& pair) {
  return {pair.height, pair.width};
}

}  // namespace hvd::nn
