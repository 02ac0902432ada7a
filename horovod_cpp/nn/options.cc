#include "horovod_cpp/nn/options.h"

#include <array>
#include <charconv>
#include <cmath>

namespace hvd::nn {

std::string text_of(double value) {
  const double size = std::abs(value);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e16);
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string digits(text.data(), end.ptr);
  if (fixed && digits.find('.') == std::string::npos) digits += ".0";
  return digits;
}

std::string text_of(bool value) {
  return value ? "True" : "False";
}

std::string text_of(const Shape& values) {
  std::string text;
  for (const std::int64_t value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "(" + text + (values.size() == 1 ? ",)" : ")");
}

std::string text_of(const IntPair& pair) {
  return pair.height == pair.width ? std::to_string(pair.height) : text_of(shape_of(pair));
}

}  // namespace hvd::nn
