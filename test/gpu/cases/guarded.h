#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/dtype.h"
#include "ops/cuda/device.h"

// These cases belong to two programs: test/gpu/logic runs the kernels' code on the host, and
// test/gpu/device on a GPU.
namespace hvd::engine::test {

// Random elements of `dtype` without NaN, of which halves and integers hold whole numbers and
// quarters exactly. Bools are 0 and 1.
std::vector<std::byte> random_elements(DType dtype, std::int64_t numel, std::uint64_t seed);

// Memory of device 0 with `bytes` bytes that begin `offset` bytes behind a multiple of 256,
// poisoned, between two guards.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t offset);

  std::byte* data() const { return begin_; }
  void write(const std::vector<std::byte>& from) const;
  std::vector<std::byte> read() const;
  // Whether nobody wrote before or behind.
  bool is_intact() const;

 private:
  std::size_t bytes_;
  std::size_t offset_;
  Buffer buffer_;
  std::byte* begin_;
};

// Waits for the device and throws what it failed with.
void synchronize();

}  // namespace hvd::engine::test
