#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Recurrent layers over a whole sequence, f32 or f64, contiguous tensors. `projected` [t, b, g h]
// is what the inputs and all biases (GRU: the inputs' biases) contribute to the g gates; `weight`
// [g h, h] multiplies the previous state. `reverse` walks from the last step to the first.
namespace hvd::kernels {

// Gates i, f, g, o (Hochreiter, Schmidhuber: "Long short-term memory", 1997; with forget gates).
struct LstmStates {
  Tensor hidden;  // [t + 1, b, h]: the hidden states, and last the final cell state
  Tensor gates;   // [t, b, 4 h], activated
  Tensor cells;   // [t, b, h]
};
LstmStates lstm(const Tensor& projected, const Tensor& weight, const Tensor& hidden,
                const Tensor& cell, bool reverse);
struct LstmGradients {
  Tensor projected, weight, hidden, cell;
};
// `grad` has the shape of states.hidden.
LstmGradients lstm_grad(const Tensor& grad, const LstmStates& states, const Tensor& weight,
                        const Tensor& hidden, const Tensor& cell, bool reverse);

// Gates r, z, n with PyTorch's order of reset and product (Cho et al., EMNLP 2014; as in cuDNN):
// n = tanh(projected_n + r (weight_n h + bias_n)). bias [3 h].
struct GruStates {
  Tensor hidden;  // [t, b, h]
  Tensor gates;   // [t, b, 3 h], activated
  Tensor inner;   // [t, b, h]: weight_n h + bias_n
};
GruStates gru(const Tensor& projected, const Tensor& weight, const Tensor& bias,
              const Tensor& hidden, bool reverse);
struct GruGradients {
  Tensor projected, weight, bias, hidden;
};
GruGradients gru_grad(const Tensor& grad, const GruStates& states, const Tensor& weight,
                      const Tensor& hidden, bool reverse);

}  // namespace hvd::kernels
