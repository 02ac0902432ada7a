#include <Eigen/Core>

#include "horovod_cpp/tensor/cpu_dispatch/compiled.h"

namespace hvd::isa::HVD_ISA_NAME {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Read = Eigen::Map<const Matrix<T>, 0, Eigen::OuterStride<>>;
template <typename T>
using Write = Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>>;

template <typename T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc,
          bool accumulate) {
  const Read<T> left(a, transpose_a ? k : m, transpose_a ? m : k, Eigen::OuterStride<>(lda));
  const Read<T> right(b, transpose_b ? n : k, transpose_b ? k : n, Eigen::OuterStride<>(ldb));
  Write<T> result(c, m, n, Eigen::OuterStride<>(ldc));
  if (!accumulate) result.setZero();
  if (transpose_a && transpose_b) {
    result.noalias() += left.transpose() * right.transpose();
  } else if (transpose_a) {
    result.noalias() += left.transpose() * right;
  } else if (transpose_b) {
    result.noalias() += left * right.transpose();
  } else {
    result.noalias() += left * right;
  }
}

}  // namespace

template <typename T>
void set_gemm(Kernels<T>& kernels) {
  kernels.gemm = gemm<T>;
}

template void set_gemm(Kernels<float>& kernels);
template void set_gemm(Kernels<double>& kernels);

}  // namespace hvd::isa::HVD_ISA_NAME
