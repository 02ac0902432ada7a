#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/image_file.h"

namespace hvd {
namespace data {
namespace {

// The third byte of the magic number.
std::optional<DType> element_type(std::uint8_t code) {
  switch (code) {
    case 0x08:
      return DType::kU8;
    case 0x0c:
      return DType::kI32;
    case 0x0d:
      return DType::kF32;
    case 0x0e:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

struct Header {
  DType dtype = DType::kU8;
  Shape shape;
};

Header read_header(ByteSource& source) {
  const std::vector<std::uint8_t> magic = source.read(4);
  if (magic.empty()) source.fail("is empty");
  if (magic.size() < 4) source.fail("is truncated within the magic number");
  if (magic[0] != 0 || magic[1] != 0) {
    source.fail("is not an IDX file: its magic number is " + hex(magic));
  }
  const std::optional<DType> dtype = element_type(magic[2]);
  if (!dtype) {
    source.fail("has IDX element type " + hex(std::span(magic).subspan(2, 1)) +
                "; known: 0x08 (uint8), 0x0c (int32), 0x0d (float32), 0x0e (float64)");
  }
  const std::vector<std::uint8_t> extents = source.read(std::size_t{4} * magic[3]);
  if (extents.size() < std::size_t{4} * magic[3]) source.fail("is truncated within the header");
  Header header{*dtype, {}};
  for (std::size_t i = 0; i < extents.size(); i += 4) {
    std::uint32_t extent = 0;
    for (std::size_t byte = 0; byte < 4; ++byte) extent = extent << 8 | extents[i + byte];
    header.shape.push_back(extent);
  }
  return header;
}

// Bytes that the header promises.
std::size_t promised_bytes(const Header& header, const ByteSource& source) {
  const auto bytes = checked_bytes(header.shape, header.dtype);
  if (!bytes) source.fail("promises more than 2^63 bytes: shape " + to_string(header.shape));
  return static_cast<std::size_t>(*bytes);
}

// The tensor uses the bytes where they are.
Tensor adopt(std::vector<std::uint8_t> bytes, const Header& header) {
  const std::size_t element = size_of(header.dtype);
  for (std::size_t i = 0; element > 1 && i < bytes.size(); i += element) {  // from big-endian
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(i);
    std::reverse(first, first + static_cast<std::ptrdiff_t>(element));
  }
  const auto owner = std::make_shared<std::vector<std::uint8_t>>(std::move(bytes));
  return Tensor::wrap(owner->data(), header.shape, header.dtype, owner);
}

Tensor read_dimensions(const std::string& path, std::size_t dimensions) {
  Tensor tensor = read_idx(path);
  if (tensor.dtype() == DType::kU8 && tensor.shape().size() == dimensions) return tensor;
  throw InvalidArgumentError(path + ": holds " + std::string(name_of(tensor.dtype())) + " " +
                             to_string(tensor.shape()) + ": expected uint8 with " +
                             std::to_string(dimensions) + " dimensions");
}

}  // namespace

Tensor read_idx(const std::string& path) {
  ByteSource source(path);
  const Header header = read_header(source);
  const std::size_t promised = promised_bytes(header, source);
  std::vector<std::uint8_t> bytes = source.read(promised);
  if (bytes.size() < promised) {
    source.fail("is truncated: shape " + to_string(header.shape) + " of " +
                std::string(name_of(header.dtype)) + " needs " + std::to_string(promised) +
                " bytes after the header, " + std::to_string(bytes.size()) + " are there");
  }
  source.expect_end();
  if (bytes.empty()) return Tensor::empty(header.shape, header.dtype);
  return adopt(std::move(bytes), header);
}

ImageDataset read_idx_images(const std::string& images_path, const std::string& labels_path,
                             PixelFormat format) {
  const Tensor images = read_dimensions(images_path, 3);
  const Tensor labels = read_dimensions(labels_path, 1);
  if (images.size(0) != labels.size(0)) {
    throw InvalidArgumentError(images_path + " holds " + std::to_string(images.size(0)) +
                               " images, but " + labels_path + " holds " +
                               std::to_string(labels.size(0)) + " labels");
  }
  return ImageDataset(images.unsqueeze(1), labels.to(DType::kI64), format);
}

namespace {

std::string find_file(const std::string& folder, const std::string& name) {
  const std::string plain = (std::filesystem::path(folder) / name).string();
  for (const std::string& path : {plain, plain + ".gz"}) {
    if (may_exist(path)) return path;
  }
  throw InvalidArgumentError(plain + ": no such file, nor with .gz");
}

ImageDataset read_mnist(const std::string& folder, const std::string& set, PixelFormat format) {
  const std::string images = find_file(folder, set + "-images-idx3-ubyte");
  const std::string labels = find_file(folder, set + "-labels-idx1-ubyte");
  return read_idx_images(images, labels, format);
}

}  // namespace

MNIST::MNIST(const std::string& folder, bool train, PixelFormat format)
    : ImageDataset(read_mnist(folder, train ? "train" : "t10k", format)) {}

}  // namespace data
}  // namespace hvd
