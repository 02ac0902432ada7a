#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

// State dicts in the safetensors format (github.com/huggingface/safetensors, "Format"): the length
// of a JSON header, the header, the tensors' bytes.
namespace hvd {
namespace io {

using Metadata = std::map<std::string, std::string>;

struct StateFile {
  NamedTensors tensors;  // in the order of their bytes in the file
  Metadata metadata;
};

// Writes a file that is either complete or not there: a temporary file in the same folder is
// flushed to the disk and renamed over `path`. Tensors that are not contiguous are written as if
// they were. Throws InvalidArgumentError naming the path and the reason when two names are equal, a
// name is not UTF-8 or reserved ("__metadata__"), a tensor is undefined, or the file cannot be
// written; a file that was at `path` is then as it was.
void save(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

// Reads such a file: dtypes BOOL, U8, I8, U16, I16, I32, I64, F16, BF16, F32 and F64. Nothing in
// the file is trusted: whatever does not fit the format throws InvalidArgumentError naming the path
// and the fault, before memory is allocated for it.
StateFile load(const std::string& path);

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
