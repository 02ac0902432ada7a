#include "horovod_cpp/io/safetensors.h"

#include <bit>
#include <cstdint>
#include <set>
#include <utility>

#include "core/base/status.h"
#include "core/system/atomic_file.h"
#include "horovod_cpp/io/file.h"
#include "horovod_cpp/io/header_reader.h"
#include "horovod_cpp/io/safetensors_header.h"
#include "horovod_cpp/tensor/memory.h"

namespace hvd {
namespace io {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

std::uint64_t size_in_file(const Tensor& tensor) {
  return static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype());
}

// Runs `action`; what it finds wrong gets the path in front.
template <typename Action>
auto naming(const std::string& path, Action action) {
  try {
    return action();
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError(path + ": " + error.what());
  } catch (const std::bad_alloc& error) {
    throw OutOfMemoryError(path + ": " + error.what());
  }
}

Header describe(const NamedTensors& tensors, const Metadata& metadata) {
  Header header{{}, metadata};
  std::set<std::string> names = {std::string(kMetadataKey)};
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (!names.insert(name).second) {
      throw InvalidArgumentError("the name '" + name + "' is there twice or reserved");
    }
    if (!tensor.defined()) throw InvalidArgumentError("tensor '" + name + "' is undefined");
    const std::uint64_t end = offset + size_in_file(tensor);
    header.entries.push_back({name, tensor.dtype(), tensor.shape(), offset, end});
    offset = end;
  }
  return header;
}

std::string header_of(const NamedTensors& tensors, const Metadata& metadata) {
  std::string json = write_header(describe(tensors, metadata));
  if (json.size() > kMaxHeaderBytes) {
    throw InvalidArgumentError("the header would have " + std::to_string(json.size()) +
                               " bytes; the format allows " + std::to_string(kMaxHeaderBytes));
  }
  return json;
}

}  // namespace

void save(const std::string& path, const NamedTensors& tensors, const Metadata& metadata) {
  const std::string json = naming(path, [&] { return header_of(tensors, metadata); });
  const std::uint64_t length = json.size();
  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(json.data(), json.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.detach().cpu().contiguous();
    file.write(dense.data(), size_in_file(dense));
  }
  file.commit();
}

StateFile load(const std::string& path) {
  InputFile file(path);
  std::uint64_t length = 0;
  if (file.size() < sizeof length) {
    file.fail("has " + std::to_string(file.size()) + " bytes, too few for a header length");
  }
  file.read(&length, sizeof length);
  const std::uint64_t rest = file.size() - sizeof length;
  if (length > rest || length > kMaxHeaderBytes) {
    file.fail("the header claims " + std::to_string(length) + " bytes, but " +
              std::to_string(rest) + " follow and " + std::to_string(kMaxHeaderBytes) +
              " are allowed");
  }
  std::string json(length, '\0');
  file.read(json.data(), json.size());
  Header header = naming(path, [&] { return parse_header(json, rest - length); });
  StateFile state{{}, std::move(header.metadata)};
  for (HeaderEntry& entry : header.entries) {
    Tensor tensor = naming(path, [&] { return Tensor::empty(entry.shape, entry.dtype); });
    file.read(tensor.data(), size_in_file(tensor));
    state.tensors.emplace_back(std::move(entry.name), std::move(tensor));
  }
  return state;
}

}  // namespace io
}  // namespace hvd
