#pragma once

#include "horovod_cpp/autograd/functions/functions.h"

// What layers and losses compute, as functions under PyTorch's names; the contracts are in the
// headers above.
namespace hvd::nn::functional {

using hvd::adaptive_avg_pool2d;
using hvd::avg_pool2d;
using hvd::binary_cross_entropy;
using hvd::binary_cross_entropy_with_logits;
using hvd::conv1d;
using hvd::conv2d;
using hvd::conv_transpose2d;
using hvd::cross_entropy;
using hvd::dropout;
using hvd::embedding;
using hvd::gelu;
using hvd::group_norm;
using hvd::huber_loss;
using hvd::kl_div;
using hvd::l1_loss;
using hvd::layer_norm;
using hvd::leaky_relu;
using hvd::linear;
using hvd::log_softmax;
using hvd::max_pool2d;
using hvd::mse_loss;
using hvd::nll_loss;
using hvd::relu;
using hvd::sigmoid;
using hvd::silu;
using hvd::smooth_l1_loss;
using hvd::softmax;
using hvd::tanh;

// Normalises each channel of [n, c, ...] as hvd::batch_norm does. weight and bias [c] may be
// undefined (1 and 0); the running statistics too, if training, and are then not kept.
Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight = {}, const Tensor& bias = {}, bool training = false,
                  double momentum = 0.1, double eps = 1e-5);

}  // namespace hvd::nn::functional
