#include "horovod_cpp/tensor/kernels/matmul/matmul.h"

#include <algorithm>

#include "core/base/status.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/loops.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::kernels {
namespace {

Shape leading(const Shape& shape) {
  return {shape.begin(), shape.end() - 2};
}

// Matrices as GEMM takes them: rows `ld` apart, dense within; transposed if the columns are dense.
struct Operand {
  Tensor tensor;
  bool transposed;
  std::int64_t ld;
  std::vector<std::int64_t> strides;  // of the leading axes, broadcast to `lead`
};

Operand operand(const Tensor& a, bool transposed, const char* function, const Shape& lead = {}) {
  const std::int64_t rows = a.size(-2);
  const std::int64_t columns = a.size(-1);
  const std::int64_t down = a.strides()[a.strides().size() - 2];
  const std::int64_t across = a.strides().back();
  Operand result = {a, transposed, std::max(down, columns), {}};
  if ((across != 1 && columns != 1) || (down < columns && rows != 1)) {
    const bool by_columns = (down == 1 || rows == 1) && across >= rows;
    result.transposed = transposed != by_columns;
    result.ld = by_columns ? across : columns;
    if (!by_columns) result.tensor = contiguous(a);
  }
  if (lead.empty()) return result;
  const std::vector<std::int64_t>& all = result.tensor.strides();
  result.strides =
      shapes::broadcast_strides(leading(a.shape()), {all.begin(), all.end() - 2}, lead, function);
  return result;
}

}  // namespace

Tensor matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
              const char* function, const Tensor& place) {
  require_cpu(function, {&a, &b});
  shapes::require_dim(a, 2, function, "the left side");
  shapes::require_dim(b, 2, function, "the right side");
  shapes::require_same_dtype(a, b, function);
  if (!is_half(a.dtype())) shapes::require_float(a, function);
  const std::int64_t m = a.size(transpose_a ? 1 : 0);
  const std::int64_t k = a.size(transpose_a ? 0 : 1);
  const std::int64_t n = b.size(transpose_b ? 0 : 1);
  if (b.size(transpose_b ? 1 : 0) != k) {
    throw InvalidArgumentError(function, ": shapes ", a.shape(), " and ", b.shape(), " do not fit");
  }
  if (m == 0 || n == 0 || k == 0) return Tensor::zeros({m, n}, a.dtype());
  if (is_half(a.dtype()) && (a.dtype() != DType::kBF16 || isa::table().bf16.gemm == nullptr)) {
    return to(
        matmul(cast(a, DType::kF32), transpose_a, cast(b, DType::kF32), transpose_b, function),
        a.dtype());
  }
  const Operand left = operand(a, transpose_a, function);
  const Operand right = operand(b, transpose_b, function);
  if (a.dtype() == DType::kBF16) {
    const Tensor sums = Tensor::empty({m, n}, DType::kF32);
    isa::table().bf16.gemm(left.transposed, right.transposed, m, n, k, left.tensor.data<BFloat16>(),
                           left.ld, right.tensor.data<BFloat16>(), right.ld, sums.data<float>(), n,
                           false);
    return to(sums, DType::kBF16);
  }
  Tensor result = in_place_of(place, {m, n}, a, b);
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    isa::table().of<T>().gemm(left.transposed, right.transposed, m, n, k, left.tensor.data<T>(),
                              left.ld, right.tensor.data<T>(), right.ld, result.data<T>(), n,
                              false);
  });
  return result;
}

Tensor batched_matmul(const Tensor& a, const Tensor& b, const char* function) {
  require_cpu(function, {&a, &b});
  shapes::require_same_dtype(a, b, function);
  if (is_half(a.dtype())) {
    return to(batched_matmul(cast(a, DType::kF32), cast(b, DType::kF32), function), a.dtype());
  }
  shapes::require_float(a, function);
  const std::int64_t m = a.size(-2);
  const std::int64_t k = a.size(-1);
  const std::int64_t n = b.size(-1);
  if (b.size(-2) != k) {
    throw InvalidArgumentError(function, ": shapes ", a.shape(), " and ", b.shape(), " do not fit");
  }
  if (b.dim() == 2 && a.is_contiguous() && a.numel() != 0) {  // one tall matrix
    Shape shape = a.shape();
    shape.back() = n;
    return reshape(matmul(reshape(a, {-1, k}), false, b, false, function), shape);
  }
  Shape lead = shapes::broadcast(leading(a.shape()), leading(b.shape()), function);
  Shape shape = lead;
  shape.insert(shape.end(), {m, n});
  if (m == 0 || n == 0 || k == 0) return Tensor::zeros(shape, a.dtype());
  Tensor result = Tensor::empty(shape, a.dtype());
  const Operand left = operand(a, false, function, lead);
  const Operand right = operand(b, false, function, lead);
  const std::vector<std::int64_t> out(result.strides().begin(), result.strides().end() - 2);
  dispatch_float(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = left.tensor.data<T>();
    const T* y = right.tensor.data<T>();
    T* z = result.data<T>();
    for_each_row<3>(lead, {out, left.strides, right.strides},
                    [&](const auto& at, std::int64_t count, const auto& step) {
                      for (std::int64_t i = 0; i < count; ++i) {
                        isa::table().of<T>().gemm(left.transposed, right.transposed, m, n, k,
                                                  x + at[1] + i * step[1], left.ld,
                                                  y + at[2] + i * step[2], right.ld,
                                                  z + at[0] + i * step[0], n, false);
                      }
                    });
  });
  return result;
}

}  // namespace hvd::kernels
