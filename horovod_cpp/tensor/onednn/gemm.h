#pragma once

#include "horovod_cpp/tensor/cpu_dispatch/table.h"

namespace hvd::isa {

// oneDNN's shared library, opened at the first call and open as long as the process; null where it
// is missing or of another major version than the header.
void* onednn_library();

// A function of the library, or of the OpenMP runtime that came with it; null if there is none.
void* onednn_symbol(const char* name);

// While one lives, oneDNN computes on this thread alone, as all kernels do: a job has a rank for
// each core, and the order of sums does not depend on the number of cores.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  // Whether the library has what this class needs.
  static bool available();

 private:
  const int before_;
};

// Lets oneDNN do what it does faster than the table's own kernels: the float32 product of matrices.
// The library is opened at run time; false, and nothing changed, where it is missing or of another
// major version. oneDNN chooses its instruction set itself.
bool use_onednn(Table& table);

// oneDNN's product of bfloat16 matrices (Bf16Kernels::gemm): by AMX where the processor has it,
// else by AVX-512. Null where the library is missing, of another version than 2, or the processor
// has no AVX-512. Any thread may call it; each keeps the primitives it made.
decltype(Bf16Kernels::gemm) onednn_gemm_bf16();

// Lets it serve in the table where the processor has AMX. Without, it is no faster than the product
// of widened operands (oneDNN 2.6 with AVX512_BF16: 115 GFLOP/s, float32 170).
void use_onednn_bf16(Table& table);

}  // namespace hvd::isa
