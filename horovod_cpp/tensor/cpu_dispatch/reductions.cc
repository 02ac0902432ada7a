#include <math.h>

#include "horovod_cpp/tensor/cpu_dispatch/chunks.h"
#include "horovod_cpp/tensor/cpu_dispatch/compiled.h"

namespace hvd::isa::HVD_ISA_NAME {
namespace {

template <typename T>
double sum(const T* in, std::int64_t n) {
  return sum_of<T>(n, [=](std::int64_t i) { return in[i]; });
}

template <typename T>
double sum_squares(const T* in, T center, std::int64_t n) {
  return sum_of<T>(n, [=](std::int64_t i) { return (in[i] - center) * (in[i] - center); });
}

template <typename T>
double dot(const T* a, const T* b, T center, std::int64_t n) {
  return sum_of<T>(n, [=](std::int64_t i) { return a[i] * (b[i] - center); });
}

template <typename T>
T largest(const T* in, std::int64_t n) {
  T best = in[0];
  for (std::int64_t i = 1; i < n; ++i) best = in[i] > best ? in[i] : best;
  return best;
}

template <typename T>
void exp_of_difference(const T* in, T shift, T* out, std::int64_t n) {
  map_chunks(in, out, n, [=](const Chunk<T>& x) -> Chunk<T> { return exp_of<T>(x - shift); });
}

template <typename T>
void softmax(const T* in, T* out, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
    exp_of_difference(in, largest(in, columns), out, columns);
    const T total = static_cast<T>(sum(out, columns));
    for (std::int64_t i = 0; i < columns; ++i) out[i] /= total;
  }
}

template <typename T>
void softmax_grad(const T* grad, const T* out, T* grad_in, std::int64_t rows,
                  std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T total = static_cast<T>(dot(grad, out, T(0), columns));
    for (std::int64_t i = 0; i < columns; ++i) grad_in[i] = out[i] * (grad[i] - total);
    grad += columns;
    out += columns;
    grad_in += columns;
  }
}

template <typename T>
void log_softmax(const T* in, T* out, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row, in += columns, out += columns) {
    const T shift = largest(in, columns);
    exp_of_difference(in, shift, out, columns);
    const T log_total = static_cast<T>(::log(sum(out, columns)));
    for (std::int64_t i = 0; i < columns; ++i) out[i] = in[i] - shift - log_total;
  }
}

template <typename T>
void log_softmax_grad(const T* grad, const T* out, T* grad_in, std::int64_t rows,
                      std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T total = static_cast<T>(sum(grad, columns));
    map_chunks(out, grad_in, columns, [](const Chunk<T>& y) -> Chunk<T> { return exp_of<T>(y); });
    for (std::int64_t i = 0; i < columns; ++i) grad_in[i] = grad[i] - grad_in[i] * total;
    grad += columns;
    out += columns;
    grad_in += columns;
  }
}

}  // namespace

template <typename T>
void set_reductions(Kernels<T>& kernels) {
  kernels.sum = sum<T>;
  kernels.sum_squares = sum_squares<T>;
  kernels.dot = dot<T>;
  kernels.softmax = softmax<T>;
  kernels.softmax_grad = softmax_grad<T>;
  kernels.log_softmax = log_softmax<T>;
  kernels.log_softmax_grad = log_softmax_grad<T>;
}

template void set_reductions(Kernels<float>& kernels);
template void set_reductions(Kernels<double>& kernels);

}  // namespace hvd::isa::HVD_ISA_NAME
