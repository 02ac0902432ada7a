#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "core/config/config.h"

namespace hvd {

// Sets environment variables and puts back what was there before.
class ScopedEnvironment {
 public:
  ScopedEnvironment() = default;
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

  void set(const char* name, const char* value) {
    before_.emplace(name, environment(name));
    ::setenv(name, value, 1);
  }
  void unset(const char* name) {
    before_.emplace(name, environment(name));
    ::unsetenv(name);
  }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace hvd
