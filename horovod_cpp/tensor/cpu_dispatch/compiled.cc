#include "horovod_cpp/tensor/cpu_dispatch/compiled.h"

namespace hvd {
namespace isa {
namespace HVD_ISA_NAME {
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

}  // namespace HVD_ISA_NAME
}  // namespace isa
}  // namespace hvd
