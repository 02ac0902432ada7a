#include "core/base/text.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace hvd {

std::string shortest_text(double number) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string number_ranges(std::span<const int> numbers, std::string_view separator) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (first > 0) text += separator;
    text += std::to_string(numbers[first]);
    if (last > first) text += last == first + 1 ? separator : "-";
    if (last > first) text += std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

std::string local_time() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto since = now.time_since_epoch();
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(since).count() % 1000;
  std::tm fields{};
  localtime_r(&seconds, &fields);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%F %T", &fields);
  std::snprintf(text.data() + length, text.size() - length, ".%03d",
                static_cast<int>(milliseconds));
  return text.data();
}

}  // namespace hvd
