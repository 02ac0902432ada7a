#include "runner/output/wall_clock.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace hvd::runner {

std::int64_t system_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string wall_clock() {
  const std::int64_t now = system_time();
  const std::time_t seconds = now / 1'000'000'000;
  std::tm fields{};
  localtime_r(&seconds, &fields);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%F %T", &fields);
  std::snprintf(text.data() + length, text.size() - length, ".%03d",
                static_cast<int>(now / 1'000'000 % 1000));
  return text.data();
}

}  // namespace hvd::runner
