#include "horovod_cpp/nn/options.h"

#include <algorithm>
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

std::string text_of(const ConvolutionText& layer) {
  std::string text = std::to_string(layer.in_channels) + ", " + std::to_string(layer.out_channels);
  text += ", kernel_size=" + text_of(layer.kernel_size) + ", stride=" + text_of(layer.stride);
  const auto add_unless = [&](const char* name, const Shape& values, std::int64_t usual) {
    const auto is_usual = [usual](std::int64_t value) { return value == usual; };
    if (std::ranges::all_of(values, is_usual)) return;
    text += std::string(", ") + name + "=" + text_of(values);
  };
  if (layer.same_padding) {
    text += ", padding=same";
  } else {
    add_unless("padding", layer.padding, 0);
  }
  add_unless("dilation", layer.dilation, 1);
  add_unless("output_padding", layer.output_padding, 0);
  if (layer.groups != 1) text += ", groups=" + std::to_string(layer.groups);
  return layer.bias ? text : text + ", bias=False";
}

}  // namespace hvd::nn
