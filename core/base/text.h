#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace hvd {

// All of `text` as a number; nothing if it has anything else in it, blanks and '+' included.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

// The shortest text that parse_number() reads as `number`.
std::string shortest_text(double number);

// What is between the separators, empty parts included: "a,,b" has three, "" has one. The parts
// are parts of `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

// Ascending numbers, three and more in a row as a range: "0-3,5,7,8".
std::string number_ranges(std::span<const int> numbers, std::string_view separator);

// Now, for people: "2026-11-21 14:03:22.123" in the local time zone.
std::string local_time();

}  // namespace hvd
