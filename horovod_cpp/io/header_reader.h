#pragma once

#include <string>
#include <string_view>

#include "horovod_cpp/io/safetensors_header.h"

namespace hvd {
namespace io {

inline constexpr std::string_view kMetadataKey = "__metadata__";

// The entries and metadata of a header, in the order of the JSON; offsets and sizes are not yet
// checked. Throws InvalidArgumentError on whatever is not in the format.
Header read_header_json(std::string_view json);

// The dtype of a code such as "F32". Throws InvalidArgumentError naming tensor `name` and the code.
DType parse_code(const std::string& code, const std::string& name);

}  // namespace io
}  // namespace hvd
