#include "horovod_cpp/tensor/kernels/recurrent/recurrent.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd::kernels {
namespace {

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
Sequence sequence_of(const Tensor& gates, const Tensor& hidden, bool reverse) {
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

// One row of one step: from the gates' sums to the activated gates and the new states.
template <typename T>
void lstm_row(std::int64_t n, T* gates, const T* cell_before, T* cell, T* hidden) {
  const isa::Kernels<T>& kernels = isa::table().of<T>();
  kernels.unary(isa::Unary::kSigmoid, gates, gates, 2 * n);
  kernels.unary(isa::Unary::kTanh, gates + 2 * n, gates + 2 * n, n);
  kernels.unary(isa::Unary::kSigmoid, gates + 3 * n, gates + 3 * n, n);
  const T *in = gates, *forget = gates + n, *fresh = gates + 2 * n, *out = gates + 3 * n;
  for (std::int64_t j = 0; j < n; ++j) cell[j] = forget[j] * cell_before[j] + in[j] * fresh[j];
  kernels.unary(isa::Unary::kTanh, cell, hidden, n);
  for (std::int64_t j = 0; j < n; ++j) hidden[j] *= out[j];
}

// The gradients of one row's sums, given that of its hidden state; `grad_cell` becomes that of the
// cell before.
template <typename T>
void lstm_row_grad(std::int64_t n, const T* gates, const T* cell, const T* cell_before,
                   const T* grad_hidden, T* grad_cell, T* grad_gates, T* squashed) {
  isa::table().of<T>().unary(isa::Unary::kTanh, cell, squashed, n);
  const T *in = gates, *forget = gates + n, *fresh = gates + 2 * n, *out = gates + 3 * n;
  for (std::int64_t j = 0; j < n; ++j) {
    const T c = grad_cell[j] + grad_hidden[j] * out[j] * (1 - squashed[j] * squashed[j]);
    grad_gates[j] = c * fresh[j] * in[j] * (1 - in[j]);
    grad_gates[n + j] = c * cell_before[j] * forget[j] * (1 - forget[j]);
    grad_gates[2 * n + j] = c * in[j] * (1 - fresh[j] * fresh[j]);
    grad_gates[3 * n + j] = grad_hidden[j] * squashed[j] * out[j] * (1 - out[j]);
    grad_cell[j] = c * forget[j];
  }
}

template <typename T>
void run(const Sequence& sequence, const LstmStates& states, const T* weight, const T* hidden,
         const T* cell) {
  const std::int64_t n = sequence.hidden;
  const std::int64_t block = sequence.states();
  T* hidden_after = states.hidden.data<T>();
  T* cells = states.cells.data<T>();
  for (std::int64_t s = 0; s < sequence.steps; ++s) {
    const std::int64_t at = sequence.at(s);
    T* gates = states.gates.data<T>() + at * 4 * block;
    isa::table().of<T>().gemm(false, true, sequence.batch, 4 * n, n,
                              sequence.before(s, hidden_after, hidden), n, weight, n, gates, 4 * n,
                              true);
    const T* before = sequence.before(s, cells, cell);
    for (std::int64_t b = 0; b < sequence.batch; ++b) {
      lstm_row(n, gates + b * 4 * n, before + b * n, cells + at * block + b * n,
               hidden_after + at * block + b * n);
    }
  }
  std::copy_n(sequence.before(sequence.steps, cells, cell), block,
              hidden_after + sequence.steps * block);
}

template <typename T>
LstmGradients gradients(const Sequence& sequence, const Tensor& grad, const LstmStates& states,
                        const Tensor& weight, const Tensor& hidden, const Tensor& cell) {
  const std::int64_t n = sequence.hidden;
  const std::int64_t block = sequence.states();
  LstmGradients result = {Tensor::empty(states.gates.shape(), grad.dtype()),
                          {},
                          Tensor::zeros(hidden.shape(), grad.dtype()),
                          Tensor::empty(cell.shape(), grad.dtype())};
  T* carried = result.hidden.data<T>();
  T* grad_cell = result.cell.data<T>();
  std::copy_n(grad.data<T>() + sequence.steps * block, block, grad_cell);
  std::vector<T> squashed(static_cast<std::size_t>(n));
  for (std::int64_t s = sequence.steps; s-- > 0;) {
    const std::int64_t at = sequence.at(s);
    isa::table().of<T>().add_scaled(carried, grad.data<T>() + at * block, T(1), block);
    const T* before = sequence.before(s, states.cells.data<T>(), cell.data<T>());
    T* grad_gates = result.projected.data<T>() + at * 4 * block;
    for (std::int64_t b = 0; b < sequence.batch; ++b) {
      lstm_row_grad(n, states.gates.data<T>() + (at * sequence.batch + b) * 4 * n,
                    states.cells.data<T>() + at * block + b * n, before + b * n, carried + b * n,
                    grad_cell + b * n, grad_gates + b * 4 * n, squashed.data());
    }
    isa::table().of<T>().gemm(false, false, sequence.batch, n, 4 * n, grad_gates, 4 * n,
                              weight.data<T>(), n, carried, n, false);
  }
  result.weight = recurrent_weight_grad<T>(sequence, result.projected, states.hidden, hidden);
  return result;
}

}  // namespace

LstmStates lstm(const Tensor& projected, const Tensor& weight, const Tensor& hidden,
                const Tensor& cell, bool reverse) {
  require_cpu("lstm", {&projected, &weight, &hidden, &cell});
  const Sequence sequence = sequence_of(projected, hidden, reverse);
  LstmStates states = {
      Tensor::empty({sequence.steps + 1, sequence.batch, sequence.hidden}, projected.dtype()),
      projected.detach().clone(),
      Tensor::empty({sequence.steps, sequence.batch, sequence.hidden}, projected.dtype())};
  dispatch_float(projected.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    run(sequence, states, weight.data<T>(), hidden.data<T>(), cell.data<T>());
  });
  return states;
}

LstmGradients lstm_grad(const Tensor& grad, const LstmStates& states, const Tensor& weight,
                        const Tensor& hidden, const Tensor& cell, bool reverse) {
  return dispatch_float(grad.dtype(), [&](auto tag) {
    return gradients<typename decltype(tag)::type>(sequence_of(states.gates, hidden, reverse), grad,
                                                   states, weight, hidden, cell);
  });
}

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

}  // namespace hvd::kernels
