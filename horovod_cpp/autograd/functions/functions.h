#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/autograd/functions/arrangement.h"
#include "horovod_cpp/autograd/functions/comparison.h"
#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/autograd/functions/elementwise.h"
#include "horovod_cpp/autograd/functions/indexing.h"
#include "horovod_cpp/autograd/functions/losses.h"
#include "horovod_cpp/autograd/functions/statistics.h"
#include "horovod_cpp/tensor/tensor.h"

// Differentiable functions of tensors. Inputs broadcast as in NumPy where two are combined; both
// must have one dtype (nothing is cast silently; autograd/autocast.h has what asks for it). Shapes
// that do not fit throw InvalidArgumentError naming both. Results are new and a function of the
// inputs' values alone: the same bits wherever they lie. They are contiguous, except that images
// stay channels last (autograd/functions/convolution.h). float16 and bfloat16 are computed in
// float32 and rounded; integers add, subtract, multiply and sum.
namespace hvd {

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor neg(const Tensor& a);
// Floating dtypes. e^x below the smallest normal number is 0; relu keeps NaN, its slope at 0 is 0.
Tensor pow(const Tensor& a, double exponent);
// Element by element; the exponent broadcasts, is converted to a's dtype and has a gradient: 0
// where the base is 0 and the exponent is not negative.
Tensor pow(const Tensor& a, const Tensor& exponent);
Tensor exp(const Tensor& a);
Tensor log(const Tensor& a);
Tensor sqrt(const Tensor& a);
Tensor tanh(const Tensor& a);
Tensor sigmoid(const Tensor& a);
Tensor relu(const Tensor& a);

// [..., m, k] x [..., k, n] -> [..., m, n], the leading axes broadcast; either may be strided, e.g.
// a.t(). A vector on the left is a row, one on the right a column, whose axis then goes.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);  // [m] and [n] -> [m, n]
Tensor dot(const Tensor& a, const Tensor& b);    // of two vectors, a scalar of their dtype
// input [..., in], weight [out, in], bias [out] or undefined -> [..., out]
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});

// Over the given axes (empty = all). Integers and bools add up in int64; mean takes floating
// dtypes.
Tensor sum(const Tensor& a, std::vector<std::int64_t> axes = {}, bool keepdim = false);
Tensor mean(const Tensor& a, std::vector<std::int64_t> axes = {}, bool keepdim = false);
// The largest element as a scalar; equal ones share the gradient, a NaN wins.
Tensor max(const Tensor& a);
// Index of the (first) largest element along an axis, which goes unless keepdim; int64. Not
// differentiable. Without an axis: in the row-major order of all elements.
Tensor argmax(const Tensor& a, std::int64_t axis, bool keepdim = false);
Tensor argmax(const Tensor& a);
Tensor log_softmax(const Tensor& a, std::int64_t axis);
Tensor softmax(const Tensor& a, std::int64_t axis);
// Parts agree in dtype and in every other axis; stack makes a new axis.
Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis);
Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis);

// input [n, c, h, w] -> [n, c, oh, ow], oh = (h - kernel) / stride + 1; the first of several
// largest elements of a window gets its gradient, a NaN wins.
Tensor max_pool2d(const Tensor& input, int kernel, int stride = 0 /* kernel */);
// Normalises each channel of [n, c, h, w]; the other tensors are [c]. In training it uses the
// batch's statistics and moves the running ones by `momentum` (the variance unbiased, as PyTorch's)
// and needs two values a channel; else it uses the running ones. Those may not require grad.
Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                  Tensor& running_mean, Tensor& running_var, bool training, double momentum = 0.1,
                  double eps = 1e-5);
// Zeroes with probability p and scales the rest by 1/(1-p); the input itself if not training. Draws
// from this thread's default_generator().
Tensor dropout(const Tensor& input, double p, bool training);

inline Tensor operator+(const Tensor& a, const Tensor& b) {
  return add(a, b);
}
inline Tensor operator-(const Tensor& a, const Tensor& b) {
  return sub(a, b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  return mul(a, b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) {
  return div(a, b);
}
inline Tensor operator-(const Tensor& a) {
  return neg(a);
}
// A number takes the tensor's dtype; throws InvalidArgumentError if that would lose its fraction.
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
inline Tensor operator+(double a, const Tensor& b) {
  return b + a;
}
inline Tensor operator*(double a, const Tensor& b) {
  return b * a;
}
Tensor operator-(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);

}  // namespace hvd
