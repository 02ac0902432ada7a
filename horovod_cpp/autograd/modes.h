#pragma once

#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// Whether operations on this thread are recorded; true at the start of every thread.
bool grad_enabled() noexcept;

// The same from now on.
void set_grad_enabled(bool enabled) noexcept;

// While one lives, operations of its thread are recorded, or not; then as before.
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) noexcept;
  ~AutoGradMode();
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool previous_;
};

class NoGradGuard : public AutoGradMode {
 public:
  NoGradGuard() noexcept : AutoGradMode(false) {}
};

class EnableGradGuard : public AutoGradMode {
 public:
  EnableGradGuard() noexcept : AutoGradMode(true) {}
};

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

// Whether operations on this thread choose their dtype; false at the start of every thread, so also
// in the workers of a DataLoader. DataParallel's replicas follow the thread that calls it.
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

namespace autograd {

// While one lives, its thread has other tensors in the place of some: gradients of a leaf go to
// what stands for it, and what a layer writes (running statistics) it writes there. So several
// threads can run one module at the same time. Values of leaves are still read from the leaf, so a
// leaf's stand-in shares its memory. Scopes of a thread nest; the inner one alone counts.
class TensorSubstitution {
 public:
  using Pairs = std::vector<std::pair<Tensor, Tensor>>;  // what, and what stands for it

  explicit TensorSubstitution(const Pairs& pairs);
  ~TensorSubstitution();
  TensorSubstitution(const TensorSubstitution&) = delete;
  TensorSubstitution& operator=(const TensorSubstitution&) = delete;

 private:
  Pairs sorted_;  // by the id of what is replaced
  const Pairs* previous_;
};

// What stands for `tensor` on this thread: mostly the tensor itself.
Tensor substitute_for(const Tensor& tensor);

}  // namespace autograd
}  // namespace hvd
