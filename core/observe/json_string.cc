#include "core/observe/json_string.h"

#include <cstddef>

namespace hvd {
namespace {

constexpr unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none (Unicode 15,
// table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (length == 0 || first > 0xf4 || text.size() < length) return 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  for (std::size_t i = 1; i < length; ++i) {
    if (byte_at(text, i) < low || byte_at(text, i) > high) return 0;
    low = 0x80;
    high = 0xbf;
  }
  return length;
}

void append_ascii(std::string& out, char character) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(character);
  if (character == '"' || character == '\\') {
    out += '\\';
    out += character;
  } else if (code < 0x20 || code == 0x7f) {
    out += "\\u00";
    out += kHex[code >> 4];
    out += kHex[code & 15u];
  } else {
    out += character;
  }
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += "\\ufffd";
    } else if (length == 1) {
      append_ascii(out, text[0]);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
  return out;
}

}  // namespace hvd
