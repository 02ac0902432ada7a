#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/device.h"
#include "core/base/dtype.h"

namespace hvd {

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

}  // namespace hvd
