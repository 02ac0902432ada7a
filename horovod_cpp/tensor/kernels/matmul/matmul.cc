#include "horovod_cpp/tensor/kernels/matmul/matmul.h"

#include <algorithm>

#include "core/base/status.h"
#include "horovod_cpp/tensor/copy.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/half.h"
#include "horovod_cpp/tensor/result_place.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace kernels {
namespace {

// A matrix as GEMM takes it: rows `ld` apart, dense within; transposed if the columns are dense.
struct Operand {
  Tensor tensor;
  bool transposed;
  std::int64_t ld;
};

Operand operand(const Tensor& a, bool transposed) {
  const std::int64_t rows = a.size(0);
  const std::int64_t columns = a.size(1);
  const std::int64_t down = a.strides()[0];
  const std::int64_t across = a.strides()[1];
  if ((across == 1 || columns == 1) && (down >= columns || rows == 1)) {
    return {a, transposed, std::max(down, columns)};
  }
  if ((down == 1 || rows == 1) && across >= rows) return {a, !transposed, across};
  return {contiguous(a), transposed, columns};
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
    throw InvalidArgumentError(std::string(function) + ": shapes " + to_string(a.shape()) +
                               " and " + to_string(b.shape()) + " do not fit");
  }
  if (m == 0 || n == 0 || k == 0) return Tensor::zeros({m, n}, a.dtype());
  if (is_half(a.dtype()) && (a.dtype() != DType::kBF16 || isa::table().bf16.gemm == nullptr)) {
    return to(
        matmul(cast(a, DType::kF32), transpose_a, cast(b, DType::kF32), transpose_b, function),
        a.dtype());
  }
  const Operand left = operand(a, transpose_a);
  const Operand right = operand(b, transpose_b);
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

}  // namespace kernels
}  // namespace hvd
