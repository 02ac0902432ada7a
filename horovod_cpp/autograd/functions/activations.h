#pragma once

#include "horovod_cpp/tensor/tensor.h"

// Differentiable activations beside relu, sigmoid, tanh, softmax and log_softmax of functions.h.
// Floating dtypes; float16 and bfloat16 are computed in float32 and rounded.
namespace hvd {

// a where a > 0, else negative_slope * a; the slope at 0 is negative_slope.
Tensor leaky_relu(const Tensor& a, double negative_slope = 0.01);

// a * sigmoid(a) (Elfwing, Uchibe, Doya: "Sigmoid-weighted linear units", 2018).
Tensor silu(const Tensor& a);

// Hendrycks, Gimpel: "Gaussian error linear units", 2016. kNone: a * Phi(a) with the normal
// distribution's Phi. kTanh: their approximation 0.5 a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))).
enum class GeluApproximate { kNone, kTanh };
Tensor gelu(const Tensor& a, GeluApproximate approximate = GeluApproximate::kNone);

}  // namespace hvd
