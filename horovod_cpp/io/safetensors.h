#pragma once

#include <map>
#include <string>

#include "horovod_cpp/tensor/tensor.h"

// State dicts in the safetensors format (github.com/huggingface/safetensors, "Format"): the length
// of a JSON header, the header, the tensors' bytes.
namespace hvd::io {

using Metadata = std::map<std::string, std::string>;

struct StateFile {
  NamedTensors tensors;  // in the order of their bytes in the file
  Metadata metadata;
};

// Writes a file that is either complete or absent: a temporary file in the same folder is
// flushed to the disk and renamed over `path`. Tensors that are not contiguous are written as if
// they were. Throws InvalidArgumentError naming the path and the reason when two names are equal, a
// name is not UTF-8 or reserved ("__metadata__"), a tensor is undefined, or the file cannot be
// written; a file that was at `path` is then as it was.
void save(const std::string& path, const NamedTensors& tensors, const Metadata& metadata = {});

// Reads such a file: dtypes BOOL, U8, I8, U16, I16, I32, I64, F16, BF16, F32 and F64. Nothing in
// the file is trusted: whatever does not fit the format throws InvalidArgumentError naming the path
// and the fault, before memory is allocated for it.
StateFile load(const std::string& path);

}  // namespace hvd::io
