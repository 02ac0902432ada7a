#include "horovod_cpp/io/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd::io {
namespace {

// Checksums in hexadecimal: of the other metadata, then of each tensor in the order of the file.
constexpr const char* kChecksums = "checkpoint.crc32";
// The names of the parts, each with a '.' behind it: one without tensors has no other trace.
constexpr const char* kParts = "checkpoint.parts";

[[noreturn]] void fail(const std::string& path, const auto&... what) {
  throw InvalidArgumentError(path, ": ", what...);
}

class Checksum {
 public:
  void add(const void* data, std::size_t bytes) {
    value_ = crc32_z(value_, static_cast<const Bytef*>(data), bytes);
  }
  // With its length, so that no two lists of strings look alike.
  void add(std::string_view text) {
    const std::uint64_t length = text.size();
    add(&length, sizeof length);
    add(text.data(), text.size());
  }
  std::string hex() const {
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, value_, 16).ptr;
    return {digits, end};
  }

 private:
  uLong value_ = 0;
};

std::string checksum_of(const Metadata& metadata) {
  Checksum sum;
  for (const auto& [key, value] : metadata) {
    if (key == kChecksums) continue;
    sum.add(key);
    sum.add(value);
  }
  return sum.hex();
}

std::string checksum_of(const std::string& name, const Tensor& tensor) {
  Checksum sum;
  sum.add(name);
  sum.add(name_of(tensor.dtype()));
  sum.add(to_string(tensor.shape()));
  const Tensor dense = kernels::contiguous(kernels::to_device(tensor, {}));
  sum.add(dense.data(), bytes_of(dense));
  return sum.hex();
}

// "what place" for each thing that has a checksum, with the checksum it should have.
class Expected {
 public:
  Expected(const std::string& path, const std::string& list) : path_(path), rest_(list) {}

  void check(const std::string& what, const std::string& sum) {
    const std::string_view next = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(std::min(rest_.size(), next.size() + 1));
    if (next == sum) return;
    fail(path_, what, " has checksum ", sum, ", was written with '", next,
         "': the file was altered");
  }
  void check_end() const {
    if (!rest_.empty()) fail(path_, "has checksums of tensors that are not there");
  }

 private:
  const std::string& path_;
  std::string_view rest_;
};

void verify(const std::string& path, const StateFile& file) {
  const auto list = file.metadata.find(kChecksums);
  if (list == file.metadata.end()) {
    fail(path, "is not a checkpoint: its metadata has no '", kChecksums, "'");
  }
  Expected expected(path, list->second);
  expected.check("the metadata", checksum_of(file.metadata));
  std::size_t begin = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const std::size_t end = begin + bytes_of(tensor);
    expected.check("tensor '" + name + "' at data bytes [" + std::to_string(begin) + ", " +
                       std::to_string(end) + ")",
                   checksum_of(name, tensor));
    begin = end;
  }
  expected.check_end();
}

template <typename Map>
std::string names_of(const Map& map) {
  std::string names;
  for (const auto& [name, value] : map) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

}  // namespace

const NamedTensors& Checkpoint::part(const std::string& name) const {
  const auto found = parts.find(name);
  if (found != parts.end()) return found->second;
  throw InvalidArgumentError("checkpoint: no part '", name, "'; there are: ", names_of(parts));
}

const Tensor& Checkpoint::tensor(const std::string& part_name, const std::string& name) const {
  const NamedTensors& tensors = part(part_name);
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
  }
  throw InvalidArgumentError("checkpoint: no tensor '", name, "' in part '", part_name,
                             "'; there are: ", names_of(tensors));
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  Metadata metadata = checkpoint.metadata;
  for (const char* key : {kChecksums, kParts}) {
    if (metadata.contains(key)) fail(path, "the metadata key '", key, "' is reserved");
  }
  NamedTensors all;
  std::string sums;
  for (const auto& [part, tensors] : checkpoint.parts) {
    if (part.empty() || part.find('.') != std::string::npos) {
      fail(path, "part '", part, "': expected a name without '.'");
    }
    metadata[kParts] += part + ".";
    for (const auto& [name, tensor] : tensors) {
      all.emplace_back(part + "." + name, tensor);
      if (!tensor.defined()) fail(path, "tensor '", all.back().first, "' is undefined");
      sums += " " + checksum_of(all.back().first, tensor);
    }
  }
  metadata[kChecksums] = checksum_of(metadata) + sums;
  save(path, all, metadata);
}

Checkpoint load_checkpoint(const std::string& path) {
  StateFile file = load(path);
  verify(path, file);
  Checkpoint checkpoint;
  std::istringstream parts(file.metadata[kParts]);
  for (std::string part; std::getline(parts, part, '.');) checkpoint.parts[part];
  for (auto& [name, tensor] : file.tensors) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) fail(path, "tensor '", name, "' belongs to no part");
    checkpoint.parts[name.substr(0, dot)].emplace_back(name.substr(dot + 1), std::move(tensor));
  }
  file.metadata.erase(kChecksums);
  file.metadata.erase(kParts);
  checkpoint.metadata = std::move(file.metadata);
  return checkpoint;
}

NamedTensors integers(const std::map<std::string, std::int64_t>& values) {
  NamedTensors tensors;
  for (const auto& [name, value] : values) {
    tensors.emplace_back(name, Tensor::from(std::span(&value, 1), {}));
  }
  return tensors;
}

std::map<std::string, std::int64_t> integers_from(const NamedTensors& tensors) {
  std::map<std::string, std::int64_t> values;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || tensor.dtype() != DType::kI64 || tensor.dim() != 0) {
      throw InvalidArgumentError("integers_from: '", name, "' is not an int64 scalar");
    }
    values[name] = *tensor.data<std::int64_t>();
  }
  return values;
}

}  // namespace hvd::io
