#include <math.h>

#include "horovod_cpp/tensor/cpu_dispatch/chunks.h"
#include "horovod_cpp/tensor/cpu_dispatch/compiled.h"

namespace hvd::isa::HVD_ISA_NAME {
namespace {

// The C library's, element by element.
template <typename T, typename Function>
void map_scalar(const T* in, T* out, std::int64_t n, Function function) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = function(in[i]);
}

void special(Unary op, const float* in, float* out, std::int64_t n) {
  switch (op) {
    case Unary::kSin:
      return map_scalar(in, out, n, [](float x) { return ::sinf(x); });
    case Unary::kCos:
      return map_scalar(in, out, n, [](float x) { return ::cosf(x); });
    case Unary::kErf:
      return map_scalar(in, out, n, [](float x) { return ::erff(x); });
    default:
      return map_scalar(in, out, n, [](float x) { return ::log1pf(x); });
  }
}

void special(Unary op, const double* in, double* out, std::int64_t n) {
  switch (op) {
    case Unary::kSin:
      return map_scalar(in, out, n, [](double x) { return ::sin(x); });
    case Unary::kCos:
      return map_scalar(in, out, n, [](double x) { return ::cos(x); });
    case Unary::kErf:
      return map_scalar(in, out, n, [](double x) { return ::erf(x); });
    default:
      return map_scalar(in, out, n, [](double x) { return ::log1p(x); });
  }
}

template <typename T>
T root(T x) {  // the processor's own: Eigen's is wrong at infinity
  if constexpr (sizeof(T) == sizeof(float)) {
    return ::sqrtf(x);
  } else {
    return ::sqrt(x);
  }
}

template <typename T>
void unary(Unary op, const T* in, T* out, std::int64_t n) {
  switch (op) {
    case Unary::kSqrt:
      for (std::int64_t i = 0; i < n; ++i) out[i] = root(in[i]);
      return;
    case Unary::kRsqrt:
      for (std::int64_t i = 0; i < n; ++i) out[i] = T(1) / root(in[i]);
      return;
    case Unary::kNeg:
      for (std::int64_t i = 0; i < n; ++i) out[i] = element::exact_of(Unary::kNeg, in[i]);
      return;
    case Unary::kAbs:
      for (std::int64_t i = 0; i < n; ++i) out[i] = element::exact_of(Unary::kAbs, in[i]);
      return;
    case Unary::kSign:
      for (std::int64_t i = 0; i < n; ++i) out[i] = element::exact_of(Unary::kSign, in[i]);
      return;
    case Unary::kSquare:
      for (std::int64_t i = 0; i < n; ++i) out[i] = element::exact_of(Unary::kSquare, in[i]);
      return;
    case Unary::kReciprocal:
      for (std::int64_t i = 0; i < n; ++i) out[i] = element::exact_of(Unary::kReciprocal, in[i]);
      return;
    case Unary::kRelu:
      for (std::int64_t i = 0; i < n; ++i) out[i] = element::exact_of(Unary::kRelu, in[i]);
      return;
    case Unary::kExp:
      map_chunks(in, out, n, [](const Chunk<T>& x) -> Chunk<T> { return exp_of<T>(x); });
      return;
    case Unary::kLog:
      map_chunks(in, out, n, [](const Chunk<T>& x) -> Chunk<T> { return x.log(); });
      return;
    case Unary::kTanh:
      map_chunks(in, out, n, [](const Chunk<T>& x) -> Chunk<T> { return x.tanh(); });
      return;
    case Unary::kSigmoid:
      map_chunks(in, out, n,
                 [](const Chunk<T>& x) -> Chunk<T> { return T(1) / (T(1) + exp_of<T>(-x)); });
      return;
    default:
      special(op, in, out, n);
      return;
  }
}

// The three common stride pairs get loops of their own, which vectorise.
template <Binary kOp, typename T>
void zip(const T* a, std::int64_t sa, const T* b, std::int64_t sb, T* out, std::int64_t n) {
  if (sa == 1 && sb == 1) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = element::binary_of(kOp, a[i], b[i]);
  } else if (sa == 1 && sb == 0) {
    const T y = *b;
    for (std::int64_t i = 0; i < n; ++i) out[i] = element::binary_of(kOp, a[i], y);
  } else if (sa == 0 && sb == 1) {
    const T x = *a;
    for (std::int64_t i = 0; i < n; ++i) out[i] = element::binary_of(kOp, x, b[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = element::binary_of(kOp, a[i * sa], b[i * sb]);
  }
}

template <typename T>
void binary(Binary op, const T* a, std::int64_t sa, const T* b, std::int64_t sb, T* out,
            std::int64_t n) {
  switch (op) {
    case Binary::kAdd:
      return zip<Binary::kAdd>(a, sa, b, sb, out, n);
    case Binary::kSub:
      return zip<Binary::kSub>(a, sa, b, sb, out, n);
    case Binary::kMul:
      return zip<Binary::kMul>(a, sa, b, sb, out, n);
    case Binary::kDiv:
      return zip<Binary::kDiv>(a, sa, b, sb, out, n);
    case Binary::kMaximum:
      return zip<Binary::kMaximum>(a, sa, b, sb, out, n);
    case Binary::kMinimum:
      return zip<Binary::kMinimum>(a, sa, b, sb, out, n);
    case Binary::kReluGrad:
      return zip<Binary::kReluGrad>(a, sa, b, sb, out, n);
    case Binary::kTanhGrad:
      return zip<Binary::kTanhGrad>(a, sa, b, sb, out, n);
    case Binary::kSigmoidGrad:
      return zip<Binary::kSigmoidGrad>(a, sa, b, sb, out, n);
    case Binary::kSqrtGrad:
      return zip<Binary::kSqrtGrad>(a, sa, b, sb, out, n);
  }
}

template <typename T>
void power(const T* in, T exponent, T* out, std::int64_t n) {
  if (exponent == T(2)) return unary(Unary::kSquare, in, out, n);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (sizeof(T) == sizeof(float)) {
      out[i] = ::powf(in[i], exponent);
    } else {
      out[i] = ::pow(in[i], exponent);
    }
  }
}

template <typename T>
void add_scaled(T* out, const T* in, T alpha, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += alpha * in[i];
}

template <typename T>
void affine(const T* in, T scale, T shift, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] * scale + shift;
}

template <typename T>
void affine2(const T* a, T scale_a, const T* b, T scale_b, T shift, T* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * scale_a + b[i] * scale_b + shift;
}

}  // namespace

template <typename T>
void set_elementwise(Kernels<T>& kernels) {
  kernels.unary = unary<T>;
  kernels.binary = binary<T>;
  kernels.pow = power<T>;
  kernels.add_scaled = add_scaled<T>;
  kernels.affine = affine<T>;
  kernels.affine2 = affine2<T>;
}

template void set_elementwise(Kernels<float>& kernels);
template void set_elementwise(Kernels<double>& kernels);

}  // namespace hvd::isa::HVD_ISA_NAME
