#include "test/gpu/cases/guarded.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <random>

#include "core/base/half.h"
#include "ops/cuda/check.h"

namespace hvd::engine::test {
namespace {

constexpr std::size_t kGuard = 256;  // bytes
constexpr std::byte kPoison{0xa5};

template <typename T, typename Make>
std::vector<std::byte> filled(std::int64_t numel, const Make& make) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(numel) * sizeof(T));
  for (std::int64_t i = 0; i < numel; ++i) {
    const T value = make();
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> random_elements(DType dtype, std::int64_t numel, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto quarter = [&] {
    return static_cast<float>(static_cast<int>(random() % 801) - 400) / 4;
  };
  switch (dtype) {
    case DType::kF16:
      return filled<Float16>(numel, [&] { return to_float16(quarter()); });
    case DType::kBF16:
      return filled<BFloat16>(numel, [&] { return to_bfloat16(quarter()); });
    case DType::kF32:
    case DType::kC64:
      return filled<float>(numel * (is_complex(dtype) ? 2 : 1),
                           [&] { return quarter() * 1.1f + 1e-3f; });
    case DType::kF64:
    case DType::kC128:
      return filled<double>(numel * (is_complex(dtype) ? 2 : 1),
                            [&] { return quarter() * 1.1 + 1e-9; });
    case DType::kBool:
      return filled<std::uint8_t>(numel, [&] { return static_cast<std::uint8_t>(random() % 2); });
    default:
      return filled<std::uint8_t>(numel * static_cast<std::int64_t>(size_of(dtype)),
                                  [&] { return static_cast<std::uint8_t>(random()); });
  }
}

Guarded::Guarded(std::size_t bytes, std::size_t offset)
    : bytes_(bytes),
      offset_(offset),
      buffer_(allocate_cuda_memory(0, bytes + offset + 2 * kGuard)) {
  check_cuda(cudaMemset(buffer_.data, std::to_integer<int>(kPoison), buffer_.bytes), "cudaMemset");
  begin_ = static_cast<std::byte*>(buffer_.data) + kGuard + offset;
}

void Guarded::write(const std::vector<std::byte>& from) const {
  check_cuda(cudaMemcpy(begin_, from.data(), from.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
}

std::vector<std::byte> Guarded::read() const {
  std::vector<std::byte> bytes(bytes_);
  check_cuda(cudaMemcpy(bytes.data(), begin_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return bytes;
}

bool Guarded::is_intact() const {
  std::vector<std::byte> all(buffer_.bytes);
  check_cuda(cudaMemcpy(all.data(), buffer_.data, all.size(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  const auto poisoned = [](std::byte byte) { return byte == kPoison; };
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(kGuard + offset_);
  return std::all_of(all.begin(), begin, poisoned) &&
         std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), all.end(), poisoned);
}

void synchronize() {
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

}  // namespace hvd::engine::test
