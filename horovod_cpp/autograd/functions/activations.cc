#include "horovod_cpp/autograd/functions/functions.h"

#include <cmath>
#include <numbers>

#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::mapped;
using autograd::saved_for;

// Of the approximate GELU, whose gate is sigmoid(kSlope (a + kCube a^3)).
template <typename T>
constexpr T kSlope = T(1.5957691216057308);  // 2 sqrt(2 / pi)
template <typename T>
constexpr T kCube = T(0.044715);

// function(i-th element of a, of b) for contiguous tensors of one shape.
template <typename Function>
Tensor zipped(const Tensor& a, const Tensor& b, Function function) {
  Tensor result = Tensor::empty(a.shape(), a.dtype());
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    T* out = result.data<T>();
    for (std::int64_t i = 0; i < result.numel(); ++i) out[i] = static_cast<T>(function(x[i], y[i]));
  });
  return result;
}

// a * gate(a), elementwise. `gate` has the gate's values, slope(a, gate) is its derivative;
// recorded(a) is that of the whole, made of recorded functions.
template <typename Gate, typename Slope>
Tensor gated(const Tensor& a, const char* name, Gate gate, Slope slope,
             Tensor (*recorded)(const Tensor& x)) {
  require_cpu(name, {&a});
  if (autograd::is_half(a))
    return gated(a.to(DType::kF32), name, gate, slope, recorded).to(a.dtype());
  shapes::require_float(a, name);
  const Tensor x = a.contiguous();
  const Tensor open = gate(x);
  Tensor result = kernels::binary(kernels::Binary::kMul, x, open, name);
  return mapped(x, std::move(result), name,
                [saved = saved_for(x, x), open, slope, name, recorded](const Tensor& gradient) {
                  if (grad_enabled()) return gradient * recorded(saved.get(name));
                  const Tensor factor = zipped(saved.get(name), open, [slope](auto v, auto g) {
                    return g + v * slope(v, g);
                  });
                  return kernels::binary(kernels::Binary::kMul, gradient, factor, name);
                });
}

Tensor sigmoid_of(const Tensor& x) {
  return kernels::unary(kernels::Unary::kSigmoid, x, "sigmoid");
}

// The derivatives of a * gate(a).
Tensor silu_slope(const Tensor& x) {
  const Tensor gate = sigmoid(x);
  return gate + x * gate * (1.0 - gate);
}

Tensor gelu_slope(const Tensor& x) {
  const Tensor gate = (erf(x * (1 / std::numbers::sqrt2)) + 1.0) * 0.5;
  return gate + x * exp(x * x * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

Tensor gelu_tanh_slope(const Tensor& x) {
  constexpr double kS = kSlope<double>, kC = kCube<double>;
  const Tensor gate = sigmoid((x + x * x * x * kC) * kS);
  return gate + x * gate * (1.0 - gate) * (x * x * (3 * kC * kS) + kS);
}

}  // namespace

Tensor leaky_relu(const Tensor& a, double negative_slope) {
  require_cpu("leaky_relu", {&a});
  if (autograd::is_half(a)) return leaky_relu(a.to(DType::kF32), negative_slope).to(a.dtype());
  shapes::require_float(a, "leaky_relu");
  const auto scaled = [negative_slope](const Tensor& values, const Tensor& by) {
    return zipped(values, by, [negative_slope](auto value, auto sign) {
      return sign > 0 ? value : value * static_cast<decltype(value)>(negative_slope);
    });
  };
  const Tensor x = a.contiguous();
  Tensor result = scaled(x, x);
  return mapped(x, std::move(result), "leaky_relu",
                [saved = saved_for(x, x), scaled, negative_slope](const Tensor& gradient) {
                  const Tensor values = saved.get("leaky_relu");
                  if (grad_enabled()) {
                    return where(values > 0.0, gradient, gradient * negative_slope);
                  }
                  return scaled(kernels::contiguous(gradient), values);
                });
}

Tensor silu(const Tensor& a) {
  return gated(
      a, "silu", sigmoid_of, [](auto, auto gate) { return gate * (1 - gate); }, silu_slope);
}

Tensor gelu(const Tensor& a, GeluApproximate approximate) {
  if (approximate == GeluApproximate::kNone) {
    return gated(
        a, "gelu",
        [](const Tensor& x) {
          return zipped(x, x, [](auto value, auto) {
            using T = decltype(value);
            return std::erfc(-value / std::numbers::sqrt2_v<T>) / 2;
          });
        },
        [](auto value, auto) {
          using T = decltype(value);
          return std::exp(-value * value / 2) * std::numbers::inv_sqrtpi_v<T> /
                 std::numbers::sqrt2_v<T>;
        },
        gelu_slope);
  }
  // (1 + tanh(u)) / 2 = sigmoid(2 u)
  return gated(
      a, "gelu",
      [](const Tensor& x) {
        return sigmoid_of(zipped(x, x, [](auto value, auto) {
          using T = decltype(value);
          return kSlope<T> * (value + kCube<T> * value * value * value);
        }));
      },
      [](auto value, auto gate) {
        using T = decltype(value);
        return gate * (1 - gate) * kSlope<T> * (1 + 3 * kCube<T> * value * value);
      },
      gelu_tanh_slope);
}

}  // namespace hvd
