#pragma once

#include <initializer_list>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"
#include "ops/device/operation.h"

namespace hvd::kernels {

// What elementwise.h, layout.h and reduce.h do where the tensors are: on the host by the table of
// tensor/cpu_dispatch, on a device by its DeviceArithmetic. Callers have checked dtypes; all
// tensors are on one device. Results are new and contiguous, and shapes that do not broadcast
// throw.
struct Backend {
  Tensor (*unary)(engine::Unary op, const Tensor& a, const char* function);  // floating dtypes
  Tensor (*binary)(engine::Binary op, const Tensor& a, const Tensor& b, const char* function);
  void (*add_into)(const Tensor& target, const Tensor& source, double alpha);
  void (*scale)(const Tensor& target, double factor);
  void (*copy_into)(const Tensor& target, const Tensor& source);
  void (*fill)(const Tensor& target, double value);
  // Over the axes of `mask`, which stay with extent 1; integers add up in int64.
  Tensor (*sum)(const Tensor& a, const std::vector<bool>& mask);
};

const Backend& backend_of(const Tensor& tensor);
// Throws InvalidArgumentError naming `function` and both devices if there are two.
const Backend& backend_of(const char* function, const Tensor& a, const Tensor& b);

// Entries of the host's table.
namespace host {
Tensor unary(engine::Unary op, const Tensor& a, const char* function);
Tensor binary(engine::Binary op, const Tensor& a, const Tensor& b, const char* function);
void add_into(const Tensor& target, const Tensor& source, double alpha);
void scale(const Tensor& target, double factor);
void copy_into(const Tensor& target, const Tensor& source);
void fill(const Tensor& target, double value);
Tensor sum(const Tensor& a, const std::vector<bool>& mask);
}  // namespace host

}  // namespace hvd::kernels
