#pragma once

#include <algorithm>

#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/tensor.h"

// float16 and bfloat16 are stored; arithmetic on them is done in float32. What passes through the
// cache anyway is widened part by part, so that memory sees half types alone.
namespace hvd::kernels {

// `a` itself when it has this dtype, else a new tensor; axes of a dense one keep their order in
// memory (channels-last images, transposed matrices).
Tensor cast(const Tensor& a, DType dtype);

// Elements [first, first + n) of a half tensor's memory as floats, and back.
void widen(const Tensor& a, std::int64_t first, float* out, std::int64_t n);
void narrow(const float* in, const Tensor& a, std::int64_t first, std::int64_t n);

// Images [first, last) of dense channels-last ones, widened, and what puts them back.
Tensor widened_images(const Tensor& images, std::int64_t first, std::int64_t last);
void put_images(const Tensor& part, const Tensor& images, std::int64_t first);

// Calls body(first image, last image) so that the parts of [n, c, ...] fit the cache as float32.
template <typename Body>
void for_each_part(const Tensor& images, Body body) {
  constexpr std::int64_t kElements = 1 << 16;
  const std::int64_t count = images.size(0);
  if (images.numel() == 0) return;
  const std::int64_t step = std::max<std::int64_t>(1, kElements / (images.numel() / count));
  for (std::int64_t first = 0; first < count; first += step) {
    body(first, std::min(first + step, count));
  }
}

using engine::Binary;
using engine::Unary;

// Floating dtypes; kNeg, kAbs, kSign and kSquare take integers too. float16 and bfloat16 compute in
// float32.
Tensor unary(Unary op, const Tensor& a, const char* function);
// Operands broadcast and have one dtype. Integers know kAdd, kSub and kMul, modulo 2^bits, kMaximum
// and kMinimum; bools kAdd and kMaximum (or), kMul and kMinimum (and).
Tensor binary(Binary op, const Tensor& a, const Tensor& b, const char* function);
Tensor pow(const Tensor& a, double exponent);
// Operands broadcast and have one floating dtype.
Tensor pow(const Tensor& a, const Tensor& exponent);

// target += alpha * source, which broadcasts and has the same dtype; of integers `alpha` is whole.
void add_into(const Tensor& target, const Tensor& source, double alpha);
void scale(const Tensor& target, double factor);  // floating dtypes

// -- functions that give bool tensors, or are told by one; operands broadcast

enum class Compare { kEq, kNe, kLt, kLe, kGt, kGe };
enum class Logical { kAnd, kOr, kXor };

// Of one dtype. Complex numbers are equal or not, and have no order. A NaN is unequal to anything.
Tensor compare(Compare op, const Tensor& a, const Tensor& b, const char* function);
// What is not 0 is true.
Tensor truth(const Tensor& a);
Tensor logical(Logical op, const Tensor& a, const Tensor& b, const char* function);
// `a` where the condition (bool) is true, else `b`; both have one dtype, any.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, const char* function);
// Of a floating tensor.
bool has_nan(const Tensor& a);

}  // namespace hvd::kernels
