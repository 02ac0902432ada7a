#include "horovod_cpp/autograd/functions/functions.h"

#include "core/base/status.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/kernels/recurrent/recurrent.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::cast;
using autograd::computes_in_float32;
using autograd::edge_to;
using autograd::Saved;
using autograd::widened;

void check(const char* name, std::int64_t gates, const Tensor& projected, const Tensor& weight,
           const Tensor& hidden) {
  shapes::require_dim(projected, 3, name, "the projected input");
  shapes::require_dim(hidden, 2, name, "the hidden state");
  shapes::require_float(projected, name);
  shapes::require_same_dtype(projected, weight, name);
  shapes::require_same_dtype(projected, hidden, name);
  const std::int64_t n = hidden.size(1);
  if (projected.size(0) > 0 && weight.shape() == Shape{gates * n, n} &&
      projected.size(1) == hidden.size(0) && projected.size(2) == gates * n) {
    return;
  }
  throw InvalidArgumentError(name, ": projected input ", projected.shape(), ", weight ",
                             weight.shape(), " and hidden state ", hidden.shape(), " do not fit");
}

void require_shape(const char* name, const Tensor& tensor, const Shape& shape, const char* what) {
  if (tensor.shape() == shape) return;
  throw InvalidArgumentError(name, ": ", what, " ", tensor.shape(), ", expected ", shape);
}

}  // namespace

LstmResult lstm_sequence(const Tensor& projected, const Tensor& weight, const Tensor& hidden,
                         const Tensor& cell, bool reverse) {
  if (computes_in_float32({&projected, &weight, &hidden, &cell})) {
    LstmResult result =
        lstm_sequence(widened(projected), widened(weight), widened(hidden), widened(cell), reverse);
    if (is_autocast_enabled()) return result;
    return {cast(result.output, hidden.dtype()), cast(result.cell, hidden.dtype())};
  }
  check("lstm", 4, projected, weight, hidden);
  shapes::require_same_dtype(hidden, cell, "lstm");
  require_shape("lstm", cell, hidden.shape(), "cell state");
  const Tensor w = kernels::contiguous(weight);
  const Tensor h = kernels::contiguous(hidden);
  const Tensor c = kernels::contiguous(cell);
  kernels::LstmStates states = kernels::lstm(projected, w, h, c, reverse);
  Tensor all = states.hidden;
  if (autograd::should_record({&projected, &weight, &hidden, &cell})) {
    states.hidden = states.hidden.detach();  // its own node must not keep itself alive
    all = autograd::record(
        std::move(all), "lstm",
        {edge_to(projected), edge_to(weight), edge_to(hidden), edge_to(cell)},
        [states, written = Saved(states.hidden), w = Saved(w), h = Saved(h), c = Saved(c),
         reverse](const Tensor& gradient) {
          written.get("lstm");
          auto parts = kernels::lstm_grad(kernels::contiguous(gradient), states, w.get("lstm"),
                                          h.get("lstm"), c.get("lstm"), reverse);
          return std::vector<Tensor>{parts.projected, parts.weight, parts.hidden, parts.cell};
        });
  }
  const std::int64_t steps = projected.size(0);
  return {all.slice(0, 0, steps), all.select(0, steps)};
}

Tensor gru_sequence(const Tensor& projected, const Tensor& weight, const Tensor& bias,
                    const Tensor& hidden, bool reverse) {
  if (computes_in_float32({&projected, &weight, &bias, &hidden})) {
    const Tensor result =
        gru_sequence(widened(projected), widened(weight), widened(bias), widened(hidden), reverse);
    return is_autocast_enabled() ? result : cast(result, hidden.dtype());
  }
  check("gru", 3, projected, weight, hidden);
  shapes::require_same_dtype(projected, bias, "gru");
  require_shape("gru", bias, {weight.size(0)}, "bias");
  const Tensor w = kernels::contiguous(weight);
  const Tensor h = kernels::contiguous(hidden);
  kernels::GruStates states = kernels::gru(projected, w, kernels::contiguous(bias), h, reverse);
  Tensor output = states.hidden;
  if (!autograd::should_record({&projected, &weight, &bias, &hidden})) return output;
  states.hidden = states.hidden.detach();  // its own node must not keep itself alive
  return autograd::record(
      std::move(output), "gru",
      {edge_to(projected), edge_to(weight), edge_to(bias), edge_to(hidden)},
      [states, written = Saved(states.hidden), w = Saved(w), h = Saved(h),
       reverse](const Tensor& gradient) {
        written.get("gru");
        auto parts = kernels::gru_grad(kernels::contiguous(gradient), states, w.get("gru"),
                                       h.get("gru"), reverse);
        return std::vector<Tensor>{parts.projected, parts.weight, parts.bias, parts.hidden};
      });
}

}  // namespace hvd
