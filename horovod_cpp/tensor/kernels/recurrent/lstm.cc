#include <algorithm>
#include <vector>

#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/recurrent/recurrent.h"
#include "horovod_cpp/tensor/kernels/recurrent/sequence.h"

namespace hvd {
namespace kernels {
namespace {

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

}  // namespace kernels
}  // namespace hvd
