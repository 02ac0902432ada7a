#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "horovod_cpp/io/safetensors.h"

// The header of a file in the safetensors format.
namespace hvd {
namespace io {

// The header's bound in the format's reference implementation, in bytes.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct HeaderEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
};

struct Header {
  std::vector<HeaderEntry> entries;
  Metadata metadata;
};

// JSON, filled up with spaces to a multiple of 8 bytes. Throws InvalidArgumentError when a string
// is not UTF-8.
std::string write_header(const Header& header);

// Checks everything against the format and `data_bytes`, the bytes that follow the header: the
// entries come back sorted by offset, together covering the data exactly. Throws
// InvalidArgumentError saying what is wrong.
Header parse_header(std::string_view json, std::uint64_t data_bytes);

inline constexpr std::string_view kMetadataKey = "__metadata__";

// The entries and metadata of a header, in the order of the JSON; offsets and sizes are not yet
// checked. Throws InvalidArgumentError on whatever is not in the format.
Header read_header_json(std::string_view json);

// The dtype of a code such as "F32". Throws InvalidArgumentError naming tensor `name` and the code.
DType parse_code(const std::string& code, const std::string& name);

}  // namespace io
}  // namespace hvd
