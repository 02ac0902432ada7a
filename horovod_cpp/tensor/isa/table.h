#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The arithmetic that profits from wide registers. The .cc files of this folder that include
// isa/compiled.h are compiled once per instruction set; the processor decides at the first use
// which table serves. Environment: HVD_ISA=baseline, v3 (AVX2, FMA) or v4 (AVX-512) forces one.
// Tables agree within rounding; with one table equal inputs give equal bits.
namespace hvd {
namespace isa {

enum class Unary {
  kNeg,
  kExp,
  kLog,
  kSqrt,
  kTanh,
  kSigmoid,
  kRelu,
  kAbs,
  kSign,  // of NaN: NaN
  kSquare,
  kReciprocal,
  kRsqrt,
  kSin,
  kCos,
  kErf,
  kLog1p,
};

enum class Binary {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,  // a NaN wins, here and in kMinimum
  kMinimum,
  // a is the gradient of the result y, b is y: the gradient of the operand.
  kReluGrad,
  kTanhGrad,
  kSigmoidGrad,
  kSqrtGrad,
};

// One image [channels, height, width] and the windows that slide over it.
struct Window {
  std::int64_t channels, height, width;
  std::int64_t kernel_h, kernel_w;
  std::int64_t stride, padding;
  std::int64_t out_h, out_w;
};

// T is float or double. Counts and strides are in elements. Outputs do not overlap inputs unless
// they are the same pointer.
template <typename T>
struct Kernels {
  void (*unary)(Unary op, const T* in, T* out, std::int64_t n);
  void (*binary)(Binary op, const T* a, std::int64_t stride_a, const T* b, std::int64_t stride_b,
                 T* out, std::int64_t n);
  void (*pow)(const T* in, T exponent, T* out, std::int64_t n);
  // out += alpha * in
  void (*add_scaled)(T* out, const T* in, T alpha, std::int64_t n);
  // out = in * scale + shift
  void (*affine)(const T* in, T scale, T shift, T* out, std::int64_t n);
  // out = a * scale_a + b * scale_b + shift
  void (*affine2)(const T* a, T scale_a, const T* b, T scale_b, T shift, T* out, std::int64_t n);

  double (*sum)(const T* in, std::int64_t n);
  // sum of (in - center)^2
  double (*sum_squares)(const T* in, T center, std::int64_t n);
  // sum of a * (b - center)
  double (*dot)(const T* a, const T* b, T center, std::int64_t n);

  // Row-major [rows, columns]; the last axis is normalised.
  void (*softmax)(const T* in, T* out, std::int64_t rows, std::int64_t columns);
  void (*softmax_grad)(const T* grad, const T* out, T* grad_in, std::int64_t rows,
                       std::int64_t columns);
  void (*log_softmax)(const T* in, T* out, std::int64_t rows, std::int64_t columns);
  void (*log_softmax_grad)(const T* grad, const T* out, T* grad_in, std::int64_t rows,
                           std::int64_t columns);

  // Row-major c [m, n] = (or +=) op(a) [m, k] * op(b) [k, n]; ld is the distance of two rows.
  void (*gemm)(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc,
               bool accumulate);

  // columns [channels * kernel_h * kernel_w, out_h * out_w], rows `ld` apart; zero where padded.
  void (*image_to_columns)(const Window& window, const T* image, T* columns, std::int64_t ld);
  // The transpose of it: adds every column entry to the pixel it came from.
  void (*columns_to_image)(const Window& window, const T* columns, std::int64_t ld, T* image);

  // `index` receives the offset, within its plane, of each window's first largest element.
  void (*max_pool)(const Window& window, const T* image, T* out, std::int32_t* index);
};

struct Table {
  std::string_view name;
  Kernels<float> f32;
  Kernels<double> f64;

  template <typename T>
  const Kernels<T>& of() const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return f32;
    } else {
      return f64;
    }
  }
};

// The table in use. Throws InvalidArgumentError if HVD_ISA names none that this processor can run.
const Table& table();

// Those this processor can run, narrowest first.
const std::vector<const Table*>& available();

// The one of `tables` named `wanted`, or the last. Throws InvalidArgumentError listing the names.
const Table& choose(const std::vector<const Table*>& tables,
                    const std::optional<std::string>& wanted);

}  // namespace isa
}  // namespace hvd
