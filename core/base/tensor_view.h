#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"

namespace hvd {

enum class DeviceKind : std::uint8_t { kCpu = 0, kCuda = 1 };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

using Shape = std::vector<std::int64_t>;

// Elements of a tensor of this shape; 1 for a scalar (empty shape).
// Throws InvalidArgumentError on a negative extent or an overflow of int64.
std::int64_t numel_of(const Shape& shape);

// "[2, 3]"
std::string to_string(const Shape& shape);

// Borrowed, dense, row-major memory. Whoever holds one knows why the memory outlives it.
struct TensorView {
  void* data = nullptr;
  std::int64_t numel = 0;  // elements
  DType dtype = DType::kF32;
  Device device;

  std::size_t bytes() const { return static_cast<std::size_t>(numel) * size_of(dtype); }
};

// A view together with what keeps its memory alive while an operation is in flight.
struct Lease {
  TensorView view;
  std::shared_ptr<const void> owner;
};

// Bytes of a tensor of this shape. None if an extent is negative, or if those other than 0 multiply
// to more than 2^63 bytes, wherever a 0 stands: [0, 2^62, 4] holds nothing, but its strides
// overflow. For shapes of peers and files.
std::optional<std::int64_t> checked_bytes(const Shape& shape, DType dtype);

}  // namespace hvd
