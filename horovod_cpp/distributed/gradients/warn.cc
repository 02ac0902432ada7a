#include "horovod_cpp/distributed/gradients/warn.h"

#include <utility>

#include "core/config/log.h"

namespace hvd {
namespace {

std::function<void(const std::string&)>& handler() {
  static std::function<void(const std::string&)> instance;
  return instance;
}

}  // namespace

void warn(const std::string& text) {
  if (handler()) return handler()(text);
  log(LogLevel::kWarning, text);
}

void set_warning_handler(std::function<void(const std::string&)> new_handler) {
  handler() = std::move(new_handler);
}

}  // namespace hvd
