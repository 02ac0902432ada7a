#pragma once

#include <algorithm>
#include <cstdint>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/tensor.h"

// What the recurrent kernels share.
namespace hvd {
namespace kernels {

// The extents of a sequence and the order of its steps.
struct Sequence {
  std::int64_t steps, batch, hidden;
  bool reverse;

  std::int64_t states() const { return batch * hidden; }
  // Where the s-th step lies.
  std::int64_t at(std::int64_t s) const { return reverse ? steps - 1 - s : s; }
  // The state before the s-th step, given those after every step and the first.
  template <typename T>
  const T* before(std::int64_t s, const T* after, const T* first) const {
    return s == 0 ? first : after + at(s - 1) * states();
  }
};

// `gates`: [steps, batch, gates * hidden]
inline Sequence sequence_of(const Tensor& gates, const Tensor& hidden, bool reverse) {
  return {gates.size(0), gates.size(1), hidden.size(1), reverse};
}

// weight^T's gradient: the sum over all steps of (gate gradients)^T x (state before the step), as
// one product.
template <typename T>
Tensor recurrent_weight_grad(const Sequence& sequence, const Tensor& gate_grads,
                             const Tensor& hidden_after, const Tensor& first) {
  const std::int64_t gates = gate_grads.size(2);
  const Tensor before =
      Tensor::empty({sequence.steps, sequence.batch, sequence.hidden}, gate_grads.dtype());
  for (std::int64_t s = 0; s < sequence.steps; ++s) {
    const T* state = sequence.before(s, hidden_after.data<T>(), first.data<T>());
    std::copy_n(state, sequence.states(), before.data<T>() + sequence.at(s) * sequence.states());
  }
  Tensor result = Tensor::zeros({gates, sequence.hidden}, gate_grads.dtype());
  if (gate_grads.numel() == 0) return result;
  isa::table().of<T>().gemm(true, false, gates, sequence.hidden, sequence.steps * sequence.batch,
                            gate_grads.data<T>(), gates, before.data<T>(), sequence.hidden,
                            result.data<T>(), sequence.hidden, false);
  return result;
}

}  // namespace kernels
}  // namespace hvd
