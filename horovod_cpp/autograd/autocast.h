#pragma once

#include "core/base/dtype.h"

// Mixed precision, as PyTorch's torch.autocast on a CPU (Micikevicius et al.: "Mixed precision
// training", ICLR 2018; with bfloat16 no loss needs scaling). Parameters, their gradients and the
// optimizer stay float32; within a region each operation chooses the dtype it computes in:
//
//   bfloat16 (or float16)  matmul, linear, conv1d, conv2d, conv_transpose2d: their float32 operands
//                          are cast. So are the products of attention and of recurrent layers.
//   float32                softmax, log_softmax, all losses, sum, mean, prod, cumsum, var, std,
//                          norm, and the recurrence of LSTM and GRU: half operands are cast.
//   the wider of both      add, sub, mul, div, maximum, minimum, where, comparisons, concat, stack,
//                          of operands whose floating dtypes differ
//   as they come           everything else. Normalisation keeps its input's dtype; its statistics
//                          are float32 or wider, its parameters may be float32.
//
// float64 and integers are never cast. What is recorded within a region runs backwards in the
// dtypes it ran forwards in, wherever backward() is called; the gradient of a float32 leaf is
// float32. (PyTorch's CPU region leaves softmax, sum and mean in bfloat16; its CUDA region and this
// one do not.)
namespace hvd {

// Whether operations on this thread choose their dtype; false at the start of every thread, so also
// in the workers of a DataLoader. DataParallel's replicas do as the thread that calls it.
bool is_autocast_enabled() noexcept;
// What products are computed in while it is enabled.
DType autocast_dtype() noexcept;

// While one lives, its thread is in such a region, or (`enabled` false) is not; then as before.
// The guards of a thread end in the reverse of the order they began in.
//
// A float32 leaf that requires grad is cast once and the copy is kept until the outermost region
// ends, unless it is written to or `cache_enabled` is false. Throws InvalidArgumentError on a dtype
// that is neither bfloat16 nor float16.
class AutocastGuard {
 public:
  explicit AutocastGuard(DType dtype = DType::kBF16, bool enabled = true,
                         bool cache_enabled = true);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  DType dtype_;
  bool enabled_;
  bool cache_enabled_;
};

// Drops the copies that this thread keeps.
void clear_autocast_cache() noexcept;

}  // namespace hvd
