#include "core/system/class_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace hvd {

std::string class_name_of(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed), std::free);
  const std::string full = failed == 0 ? text.get() : type.name();
  const std::size_t colon = full.rfind("::");
  return colon == std::string::npos ? full : full.substr(colon + 2);
}

}  // namespace hvd
