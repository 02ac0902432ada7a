#pragma once

#include "horovod_cpp/tensor/cpu_dispatch/table.h"

namespace hvd {
namespace isa {

// oneDNN's product of bfloat16 matrices (Bf16Kernels::gemm): by AMX where the processor has it,
// else by AVX-512. Null where the library is missing, of another version than 2, or the processor
// has no AVX-512. Any thread may call it; each keeps the primitives it made.
decltype(Bf16Kernels::gemm) onednn_gemm_bf16();

// Lets it serve in the table where the processor has AMX. Without, it is no faster than the product
// of widened operands (oneDNN 2.6 with AVX512_BF16: 115 GFLOP/s, float32 170).
void use_onednn_bf16(Table& table);

}  // namespace isa
}  // namespace hvd
