#include "horovod_cpp/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/extents.h"
#include "core/base/status.h"
#include "horovod_cpp/io/header_reader.h"

namespace hvd {
namespace io {
namespace {

// Indexed by DType; empty where the format has no code.
constexpr std::array<std::string_view, kDTypeCount> kDTypeCodes = {
    "U8", "I32", "I64", "F16", "BF16", "F32", "F64", "I8", "U16", "I16", "BOOL", "", ""};

std::string quote(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgumentError("a name or metadata string is not UTF-8");
  }
}

std::string_view code_of(const HeaderEntry& entry) {
  const std::string_view code = kDTypeCodes[static_cast<std::size_t>(entry.dtype)];
  if (code.empty()) {
    throw InvalidArgumentError("tensor '" + entry.name + "' has dtype " +
                               std::string(name_of(entry.dtype)) +
                               ", which the safetensors format cannot hold");
  }
  return code;
}

void check_size(const HeaderEntry& entry) {
  const auto bytes = checked_bytes(entry.shape, entry.dtype);
  if (!bytes) {
    throw InvalidArgumentError("tensor '" + entry.name + "' of shape " + to_string(entry.shape) +
                               " has more than 2^63 bytes");
  }
  if (static_cast<std::uint64_t>(*bytes) != entry.end - entry.begin) {
    throw InvalidArgumentError("tensor '" + entry.name + "' of shape " + to_string(entry.shape) +
                               " and dtype " + std::string(name_of(entry.dtype)) + " needs " +
                               std::to_string(*bytes) + " bytes, its data_offsets give " +
                               std::to_string(entry.end - entry.begin));
  }
}

void check_layout(std::vector<HeaderEntry>& entries, std::uint64_t data_bytes) {
  std::ranges::stable_sort(
      entries, {}, [](const HeaderEntry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t expected = 0;
  for (const HeaderEntry& entry : entries) {
    const std::string range =
        "[" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + ")";
    if (entry.begin > entry.end || entry.end > data_bytes) {
      throw InvalidArgumentError("tensor '" + entry.name + "' lies at " + range + " of " +
                                 std::to_string(data_bytes) + " data bytes");
    }
    if (entry.begin != expected) {
      throw InvalidArgumentError(
          "tensor '" + entry.name + "' lies at " + range + ", which " +
          (entry.begin < expected ? "overlaps the one before" : "leaves a hole before it") +
          ": expected to begin at " + std::to_string(expected));
    }
    check_size(entry);
    expected = entry.end;
  }
  if (expected != data_bytes) {
    throw InvalidArgumentError("the tensors end at byte " + std::to_string(expected) + " of " +
                               std::to_string(data_bytes) + " data bytes");
  }
}

}  // namespace

DType parse_code(const std::string& code, const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < kDTypeCodes.size(); ++i) {
    if (kDTypeCodes[i].empty()) continue;
    if (kDTypeCodes[i] == code) return static_cast<DType>(i);
    known += (i == 0 ? "" : ", ") + std::string(kDTypeCodes[i]);
  }
  throw InvalidArgumentError("tensor '" + name + "' has dtype '" + code + "'; known: " + known);
}

std::string write_header(const Header& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    json += quote(kMetadataKey) + ":{";
    for (const auto& [key, value] : header.metadata) json += quote(key) + ":" + quote(value) + ",";
    json.back() = '}';
    json += ",";
  }
  for (const HeaderEntry& entry : header.entries) {
    json += quote(entry.name) + R"(:{"dtype":")";
    json += code_of(entry);
    json += R"(","shape":)" + nlohmann::json(entry.shape).dump() + R"(,"data_offsets":[)" +
            std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]},";
  }
  if (json.size() > 1) json.pop_back();
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

Header parse_header(std::string_view json, std::uint64_t data_bytes) {
  if (json.empty() || json.front() != '{')
    throw InvalidArgumentError("the header does not begin with '{'");
  Header header = read_header_json(json);
  check_layout(header.entries, data_bytes);
  return header;
}

}  // namespace io
}  // namespace hvd
