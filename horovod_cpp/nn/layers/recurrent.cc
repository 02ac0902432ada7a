#include "horovod_cpp/nn/layers/recurrent.h"

#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/options.h"

namespace hvd::nn {

Recurrent::Recurrent(const char* layer, std::int64_t gates, std::int64_t input_size,
                     std::int64_t hidden_size, const RecurrentOptions& options)
    : input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  check_positive(layer, "input_size", input_size);
  check_positive(layer, "hidden_size", hidden_size);
  check_positive(layer, "num_layers", options.num_layers);
  check_fraction(layer, "dropout", options.dropout);
  const std::int64_t directions = options.bidirectional ? 2 : 1;
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    const std::int64_t inputs = i == 0 ? input_size : directions * hidden_size;
    cells_.push_back(make_cell(gates, inputs, "_l" + std::to_string(i)));
    if (options.bidirectional) {
      cells_.push_back(make_cell(gates, inputs, "_l" + std::to_string(i) + "_reverse"));
    }
  }
}

Recurrent::Cell Recurrent::make_cell(std::int64_t gates, std::int64_t inputs,
                                     const std::string& suffix) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(hidden_size_));
  const auto parameter = [&](const std::string& name, Shape shape) {
    Tensor tensor = register_parameter(name + suffix, Tensor::empty(std::move(shape)));
    init::uniform_(tensor, -bound, bound);
    return tensor;
  };
  const std::int64_t sums = gates * hidden_size_;
  Cell cell;
  cell.weight_ih = parameter("weight_ih", {sums, inputs});
  cell.weight_hh = parameter("weight_hh", {sums, hidden_size_});
  if (!options_.bias) return cell;
  cell.bias_ih = parameter("bias_ih", {sums});
  cell.bias_hh = parameter("bias_hh", {sums});
  return cell;
}

std::string Recurrent::extra_repr() const {
  std::string text = std::to_string(input_size_) + ", " + std::to_string(hidden_size_);
  if (options_.num_layers != 1) text += ", num_layers=" + std::to_string(options_.num_layers);
  if (!options_.bias) text += ", bias=False";
  if (options_.batch_first) text += ", batch_first=True";
  if (options_.dropout != 0) text += ", dropout=" + text_of(options_.dropout);
  return options_.bidirectional ? text + ", bidirectional=True" : text;
}

void Recurrent::parameter_replaced(const Tensor& old, const Tensor& value) {
  for (Cell& cell : cells_) {
    for (Tensor* own : {&cell.weight_ih, &cell.weight_hh, &cell.bias_ih, &cell.bias_hh}) {
      if (own->is(old)) *own = value;
    }
  }
}

Tensor Recurrent::run_layer(std::size_t layer, const Tensor& input, const Run& run) {
  if (!options_.bidirectional) return run(cells_[layer], layer, input, false);
  return concat({run(cells_[2 * layer], 2 * layer, input, false),
                 run(cells_[2 * layer + 1], 2 * layer + 1, input, true)},
                2);
}

Tensor Recurrent::run_layers(const Tensor& input, const Run& run) {
  Tensor value = options_.batch_first ? input.transpose(0, 1) : input;
  const auto layers = static_cast<std::size_t>(options_.num_layers);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (layer > 0) value = dropout(value, options_.dropout, is_training());
    value = run_layer(layer, value, run);
  }
  return options_.batch_first ? value.transpose(0, 1).contiguous() : value;
}

Tensor Recurrent::initial_state(const Tensor& input, const Tensor& state, const char* what) const {
  if (input.dim() != 3 || input.size(2) != input_size_ || input.numel() == 0) {
    throw InvalidArgumentError(
        "input ", input.shape(), " for input_size ", input_size_, ": expected ",
        (options_.batch_first ? "[batch, steps, input_size]" : "[steps, batch, input_size]"));
  }
  const Shape shape = {static_cast<std::int64_t>(cells_.size()),
                       input.size(options_.batch_first ? 0 : 1), hidden_size_};
  if (!state.defined()) return Tensor::zeros(shape, input.dtype());
  if (state.shape() != shape) {
    throw InvalidArgumentError("input ", input.shape(), " and ", what, " ", state.shape(),
                               ": expected ", shape);
  }
  return state;
}

LstmOutput LSTM::forward(const Tensor& input, const Tensor& hidden, const Tensor& cell) {
  const Tensor h = initial_state(input, hidden, "the hidden state");
  const Tensor c = initial_state(input, cell, "the cell state");
  std::vector<Tensor> last_hidden, last_cell;
  const Tensor output = run_layers(
      input, [&](const Cell& part, std::size_t index, const Tensor& given, bool reverse) {
        const auto at = static_cast<std::int64_t>(index);
        const Tensor bias = part.bias_ih.defined() ? part.bias_ih + part.bias_hh : Tensor();
        const LstmResult result =
            lstm_sequence(functional::linear(given, part.weight_ih, bias), part.weight_hh,
                          h.select(0, at), c.select(0, at), reverse);
        last_hidden.push_back(final_state(result.output, reverse));
        last_cell.push_back(result.cell);
        return result.output;
      });
  return {output, stack(last_hidden, 0), stack(last_cell, 0)};
}

LstmOutput LSTM::operator()(const Tensor& input, const Tensor& hidden, const Tensor& cell) {
  return call_with_outputs(*this, input, &LstmOutput::output,
                           [&](const Tensor& given) { return forward(given, hidden, cell); });
}

GruOutput GRU::forward(const Tensor& input, const Tensor& hidden) {
  const Tensor h = initial_state(input, hidden, "the hidden state");
  std::vector<Tensor> last;
  const Tensor output = run_layers(
      input, [&](const Cell& part, std::size_t index, const Tensor& given, bool reverse) {
        const Tensor bias = part.bias_hh.defined()
                                ? part.bias_hh
                                : Tensor::zeros({part.weight_hh.size(0)}, given.dtype());
        const Tensor result =
            gru_sequence(functional::linear(given, part.weight_ih, part.bias_ih), part.weight_hh,
                         bias, h.select(0, static_cast<std::int64_t>(index)), reverse);
        last.push_back(final_state(result, reverse));
        return result;
      });
  return {output, stack(last, 0)};
}

GruOutput GRU::operator()(const Tensor& input, const Tensor& hidden) {
  return call_with_outputs(*this, input, &GruOutput::output,
                           [&](const Tensor& given) { return forward(given, hidden); });
}

}  // namespace hvd::nn
