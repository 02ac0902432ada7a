#pragma once

#include <utility>
#include <vector>

#include "horovod_cpp/nn/module.h"

namespace hvd::nn {

struct RecurrentOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  // input and output are [batch, steps, ...]
  double dropout = 0.0;      // in training, on the outputs of every layer but the last
  bool bidirectional = false;
};

// What LSTM and GRU share. Input [steps, batch, input_size]; parameters are PyTorch's
// (weight_ih_l0 [gates * hidden, input], weight_hh_l0, bias_ih_l0, bias_hh_l0, ..._l0_reverse,
// weight_ih_l1, ...), all uniform within 1 / sqrt(hidden_size) at first. States are [num_layers *
// directions, batch, hidden_size], the directions of a layer side by side.
class Recurrent : public Module {
 public:
  std::string extra_repr() const override;

 protected:
  // One direction of one layer.
  struct Cell {
    Tensor weight_ih, weight_hh, bias_ih, bias_hh;  // biases undefined without
  };
  // The outputs of one direction of one layer [steps, batch, hidden].
  using Run =
      std::function<Tensor(const Cell& cell, std::size_t index, const Tensor& input, bool reverse)>;

  Recurrent(const char* layer, std::int64_t gates, std::int64_t input_size,
            std::int64_t hidden_size, const RecurrentOptions& options);

  // Runs all layers; `input` and the result are laid out as the options say.
  Tensor run_layers(const Tensor& input, const Run& run);
  // `state` after a check of its shape, or zeros if it is undefined. Throws InvalidArgumentError.
  Tensor initial_state(const Tensor& input, const Tensor& state, const char* what) const;
  // The last output of a direction of a layer.
  static Tensor final_state(const Tensor& output, bool reverse) {
    return output.select(0, reverse ? 0 : output.size(0) - 1);
  }

 private:
  void parameter_replaced(const Tensor& old, const Tensor& value) override;
  Cell make_cell(std::int64_t gates, std::int64_t inputs, const std::string& suffix);
  Tensor run_layer(std::size_t layer, const Tensor& input, const Run& run);

  std::int64_t input_size_;
  std::int64_t hidden_size_;
  RecurrentOptions options_;
  std::vector<Cell> cells_;
};

struct LstmOutput {
  Tensor output;  // [steps, batch, directions * hidden_size]
  Tensor hidden;  // [num_layers * directions, batch, hidden_size], after the last step
  Tensor cell;    // likewise
};

class LSTM : public Recurrent {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("LSTM", 4, input_size, hidden_size, options) {}
  // The output alone, from zero states.
  Tensor forward(const Tensor& input) override { return forward(input, {}, {}).output; }
  // Undefined states are zeros.
  LstmOutput forward(const Tensor& input, const Tensor& hidden, const Tensor& cell);
  using Module::operator();
  LstmOutput operator()(const Tensor& input, const Tensor& hidden, const Tensor& cell);
};

struct GruOutput {
  Tensor output;  // [steps, batch, directions * hidden_size]
  Tensor hidden;  // [num_layers * directions, batch, hidden_size], after the last step
};

class GRU : public Recurrent {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentOptions& options = {})
      : Recurrent("GRU", 3, input_size, hidden_size, options) {}
  // The output alone, from a zero state.
  Tensor forward(const Tensor& input) override { return forward(input, Tensor()).output; }
  // An undefined state is zeros.
  GruOutput forward(const Tensor& input, const Tensor& hidden);
  using Module::operator();
  GruOutput operator()(const Tensor& input, const Tensor& hidden);
};

}  // namespace hvd::nn
