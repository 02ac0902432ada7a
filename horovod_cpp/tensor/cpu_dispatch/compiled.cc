#include "horovod_cpp/tensor/cpu_dispatch/compiled.h"

namespace hvd::isa::HVD_ISA_NAME {
namespace {

void widen(const BFloat16* __restrict in, float* __restrict out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(in[i].bits) << 16;
    __builtin_memcpy(&out[i], &bits, sizeof(bits));
  }
}

void narrow(const float* __restrict in, BFloat16* __restrict out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &in[i], sizeof(bits));
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (bits >> 16) | 0x40u;
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i].bits = static_cast<std::uint16_t>(nan ? quiet : rounded);
  }
}

}  // namespace

void set_bf16(Bf16Kernels& kernels) {
  kernels.widen = widen;
  kernels.narrow = narrow;
}

namespace {

template <typename T>
Kernels<T> kernels() {
  Kernels<T> result{};
  set_elementwise(result);
  set_reductions(result);
  set_gemm(result);
  set_rows(result);
  set_columns(result);
  return result;
}

}  // namespace

// Declared again in isa_choice.cc, the one caller.
void fill(Table& table) {
  table.f32 = kernels<float>();
  table.f64 = kernels<double>();
  set_bf16(table.bf16);
}

}  // namespace hvd::isa::HVD_ISA_NAME
