#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/half.h"
#include "core/base/isa.h"
#include "ops/device/operation.h"

// The arithmetic that profits from wide registers. The .cc files of this folder that include
// compiled.h are compiled once per instruction set; the processor decides at the first use
// which table serves; oneDNN, where it is installed, takes over some of the widest (tensor/onednn).
// Environment: HVD_ISA=baseline, v3 (AVX2, FMA), v4 (AVX-512) or onednn forces one.
// Tables agree within rounding; with one table equal inputs give equal bits.
namespace hvd::isa {

using engine::Binary;
using engine::Unary;

// Rows of two matrices that belong together: where each begins, in elements.
struct RowPairs {
  std::int64_t count;
  const std::int64_t* a;
  const std::int64_t* c;
};

// What of its surroundings each row of a's side contributes: `length` elements from `a` on, counted
// from where the row begins. They meet the rows b, b + 1, ... of a third matrix.
struct Segment {
  std::int64_t a, b, length;
};
struct Segments {
  std::int64_t count;
  const Segment* at;
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

  // The most columns that gather_gemm and gather_outer take at once, and the unit to which the rows
  // of `b` and `w` are padded; they lie one after the other.
  std::int64_t panel;
  std::int64_t lanes;
  // c[i] = bias (null: 0) + the sum over the segments of a[i] * b for each pair of rows, c [.., n].
  void (*gather_gemm)(const RowPairs& rows, const Segments& segments, std::int64_t n, const T* a,
                      const T* b, const T* bias, T* c);
  // w += the sum of a[i]^T c[i] over the pairs, for each segment.
  void (*gather_outer)(const RowPairs& rows, const Segments& segments, std::int64_t n, const T* a,
                       const T* c, T* w);
  // Element j of row i becomes element i of row j. Where the rows begin is given for both sides.
  void (*transpose)(std::int64_t rows, std::int64_t columns, const T* in,
                    const std::int64_t* in_rows, T* out, const std::int64_t* out_rows);

  // Dense [rows, columns], with numbers for each column. Sums of x - x[0] and of its square.
  void (*column_moments)(std::int64_t rows, std::int64_t columns, const T* in, double* sums,
                         double* squares);
  // out = in * scale + shift, cut off below zero if `relu`
  void (*column_affine)(std::int64_t rows, std::int64_t columns, const T* in, const T* scale,
                        const T* shift, bool relu, T* out);
  // Sums of g and of g * (x - center).
  void (*column_dots)(std::int64_t rows, std::int64_t columns, const T* g, const T* x,
                      const T* center, double* sums, double* dots);
  // out = a * scale_a + b * scale_b + shift
  void (*column_affine2)(std::int64_t rows, std::int64_t columns, const T* a, const T* scale_a,
                         const T* b, const T* scale_b, const T* shift, T* out);
  // The largest of some rows in each column, and the row it came from: the first of several, but a
  // NaN wins over any, the last of several.
  void (*max_of_rows)(const T* in, std::int64_t columns, const std::int32_t* rows,
                      std::int64_t count, T* out, std::int32_t* index);
};

// bfloat16, whose arithmetic is done in float32.
struct Bf16Kernels {
  void (*widen)(const BFloat16* in, float* out, std::int64_t n);
  // Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  void (*narrow)(const float* in, BFloat16* out, std::int64_t n);
  // As Kernels::gemm, summed in float32. Null where this processor multiplies float32 as fast, so
  // that widened operands serve as well.
  void (*gemm)(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const BFloat16* a, std::int64_t lda, const BFloat16* b, std::int64_t ldb, float* c,
               std::int64_t ldc, bool accumulate);
};

struct Table {
  std::string_view name;
  Isa instructions{};  // for which set it was compiled: what other tables may use
  Kernels<float> f32;
  Kernels<double> f64;
  Bf16Kernels bf16{};

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

}  // namespace hvd::isa
