#pragma once

#include "horovod_cpp/tensor/tensor.h"

// One direction of one recurrent layer over a whole sequence as one recorded operation.
// Half types are computed in float32 and rounded, unless autocast is enabled. projected [steps,
// batch, gates * hidden] is input * weight_ih^T with its bias; weight [gates * hidden, hidden];
// initial states [batch, hidden]. `reverse` walks from the last step to the first. Shapes that do
// not fit throw InvalidArgumentError naming them.
namespace hvd {

struct LstmResult {
  Tensor output;  // [steps, batch, hidden]
  Tensor cell;    // [batch, hidden]: the last one
};
// Gates in PyTorch's order: input, forget, cell, output. `projected` has both biases.
LstmResult lstm_sequence(const Tensor& projected, const Tensor& weight, const Tensor& hidden,
                         const Tensor& cell, bool reverse = false);

// Gates in PyTorch's order: reset, update, new. bias [3 * hidden] belongs to `weight`. Returns the
// outputs [steps, batch, hidden].
Tensor gru_sequence(const Tensor& projected, const Tensor& weight, const Tensor& bias,
                    const Tensor& hidden, bool reverse = false);

}  // namespace hvd
