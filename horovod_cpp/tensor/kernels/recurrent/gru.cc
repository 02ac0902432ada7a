#include <algorithm>

#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/recurrent/recurrent.h"
#include "horovod_cpp/tensor/kernels/recurrent/sequence.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"

namespace hvd {
namespace kernels {
namespace {

// One row of one step: `gates` hold the inputs' part, `recurrent` the previous state's.
template <typename T>
void gru_row(std::int64_t n, T* gates, const T* recurrent, const T* before, T* inner, T* hidden) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  kernels.add_scaled(gates, recurrent, T(1), 2 * n);
  kernels.unary(isa::Unary::kSigmoid, gates, gates, 2 * n);
  T *reset = gates, *update = gates + n, *fresh = gates + 2 * n;
  std::copy_n(recurrent + 2 * n, n, inner);
  for (std::int64_t j = 0; j < n; ++j) fresh[j] += reset[j] * inner[j];
  kernels.unary(isa::Unary::kTanh, fresh, fresh, n);
  for (std::int64_t j = 0; j < n; ++j) {
    hidden[j] = (1 - update[j]) * fresh[j] + update[j] * before[j];
  }
}

// The gradients of the inputs' part and of the previous state's part of one row's sums;
// `grad_hidden` becomes what flows to the state before directly.
template <typename T>
void gru_row_grad(std::int64_t n, const T* gates, const T* inner, const T* before, T* grad_hidden,
                  T* grad_gates, T* grad_recurrent) {
  const T *reset = gates, *update = gates + n, *fresh = gates + 2 * n;
  for (std::int64_t j = 0; j < n; ++j) {
    const T g = grad_hidden[j];
    const T grad_fresh = g * (1 - update[j]) * (1 - fresh[j] * fresh[j]);
    grad_gates[j] = grad_fresh * inner[j] * reset[j] * (1 - reset[j]);
    grad_gates[n + j] = g * (before[j] - fresh[j]) * update[j] * (1 - update[j]);
    grad_gates[2 * n + j] = grad_fresh;
    grad_recurrent[2 * n + j] = grad_fresh * reset[j];
    grad_hidden[j] = g * update[j];
  }
  std::copy_n(grad_gates, 2 * n, grad_recurrent);
}

template <typename T>
void run(const Sequence& sequence, const GruStates& states, const T* weight, const Tensor& bias,
         const T* first) {
  const std::int64_t n = sequence.hidden;
  const std::int64_t block = sequence.states();
  T* hidden = states.hidden.data<T>();
  const Tensor recurrent = Tensor::empty({sequence.batch, 3 * n}, states.hidden.dtype());
  T* sums = recurrent.data<T>();
  for (std::int64_t s = 0; s < sequence.steps; ++s) {
    const std::int64_t at = sequence.at(s);
    const T* before = sequence.before(s, hidden, first);
    for (std::int64_t b = 0; b < sequence.batch; ++b) {
      std::copy_n(bias.data<T>(), 3 * n, sums + b * 3 * n);
    }
    isa::table().of<T>().gemm(false, true, sequence.batch, 3 * n, n, before, n, weight, n, sums,
                              3 * n, true);
    for (std::int64_t b = 0; b < sequence.batch; ++b) {
      const std::int64_t row = at * block + b * n;
      gru_row(n, states.gates.data<T>() + 3 * row, sums + b * 3 * n, before + b * n,
              states.inner.data<T>() + row, hidden + row);
    }
  }
}

template <typename T>
GruGradients gradients(const Sequence& sequence, const Tensor& grad, const GruStates& states,
                       const Tensor& weight, const Tensor& first) {
  const std::int64_t n = sequence.hidden;
  const std::int64_t block = sequence.states();
  GruGradients result = {Tensor::empty(states.gates.shape(), grad.dtype()),
                         {},
                         {},
                         Tensor::zeros(first.shape(), grad.dtype())};
  const Tensor recurrent = Tensor::empty(states.gates.shape(), grad.dtype());
  T* carried = result.hidden.data<T>();
  for (std::int64_t s = sequence.steps; s-- > 0;) {
    const std::int64_t at = sequence.at(s);
    isa::table().of<T>().add_scaled(carried, grad.data<T>() + at * block, T(1), block);
    const T* before = sequence.before(s, states.hidden.data<T>(), first.data<T>());
    for (std::int64_t b = 0; b < sequence.batch; ++b) {
      const std::int64_t row = at * block + b * n;
      gru_row_grad(n, states.gates.data<T>() + 3 * row, states.inner.data<T>() + row,
                   before + b * n, carried + b * n, result.projected.data<T>() + 3 * row,
                   recurrent.data<T>() + 3 * row);
    }
    isa::table().of<T>().gemm(false, false, sequence.batch, n, 3 * n,
                              recurrent.data<T>() + at * 3 * block, 3 * n, weight.data<T>(), n,
                              carried, n, true);
  }
  result.weight = recurrent_weight_grad<T>(sequence, recurrent, states.hidden, first);
  result.bias = sum(recurrent, {true, true, false}, false);
  return result;
}

}  // namespace

GruStates gru(const Tensor& projected, const Tensor& weight, const Tensor& bias,
              const Tensor& hidden, bool reverse) {
  require_cpu("gru", {&projected, &weight, &bias, &hidden});
  const Sequence sequence = sequence_of(projected, hidden, reverse);
  const Shape shape = {sequence.steps, sequence.batch, sequence.hidden};
  GruStates states = {Tensor::empty(shape, projected.dtype()), projected.detach().clone(),
                      Tensor::empty(shape, projected.dtype())};
  dispatch_float(projected.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    run(sequence, states, weight.data<T>(), bias, hidden.data<T>());
  });
  return states;
}

GruGradients gru_grad(const Tensor& grad, const GruStates& states, const Tensor& weight,
                      const Tensor& hidden, bool reverse) {
  return dispatch_float(grad.dtype(), [&](auto tag) {
    return gradients<typename decltype(tag)::type>(sequence_of(states.gates, hidden, reverse), grad,
                                                   states, weight, hidden);
  });
}

}  // namespace kernels
}  // namespace hvd
