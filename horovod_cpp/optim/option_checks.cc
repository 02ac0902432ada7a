#include "horovod_cpp/optim/option_checks.h"

#include <cmath>
#include <string>

#include "core/base/status.h"

namespace hvd {
namespace optim {
namespace {

[[noreturn]] void fail(const char* name, double value, const char* expected) {
  throw InvalidArgumentError(std::string("optimizer: ") + name + "=" + std::to_string(value) +
                             ": expected " + expected);
}

}  // namespace

void check_not_negative(const Options& options, const char* name) {
  const double value = options.at(name);
  if (!(value >= 0) || std::isinf(value)) fail(name, value, "a finite number of at least 0");
}

void check_finite(const Options& options, const char* name) {
  const double value = options.at(name);
  if (!std::isfinite(value)) fail(name, value, "a finite number");
}

void check_below_one(const Options& options, const char* name) {
  const double value = options.at(name);
  if (!(value >= 0 && value < 1)) fail(name, value, "0 <= value < 1");
}

void check_at_most_one(const Options& options, const char* name) {
  const double value = options.at(name);
  if (!(value >= 0 && value <= 1)) fail(name, value, "0 <= value <= 1");
}

void check_adam(const Options& options) {
  check_not_negative(options, "lr");
  check_below_one(options, "beta1");
  check_below_one(options, "beta2");
  check_not_negative(options, "eps");
  check_not_negative(options, "weight_decay");
}

}  // namespace optim
}  // namespace hvd
