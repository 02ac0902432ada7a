#pragma once

#include <cstdint>

#include "horovod_cpp/tensor/tensor.h"

// More tensors to start with; see Tensor's own for those full of one value. Values that do not fit
// the dtype throw InvalidArgumentError.
namespace hvd {

// begin, begin + step, ... before `end`. Throws InvalidArgumentError if step is 0 or leads away
// from `end`. Each is begin + i * step in double, then rounded.
Tensor arange(double begin, double end, double step = 1.0, DType dtype = DType::kI64);
// `count` numbers from begin to end, both included, in equal steps; the second half is counted from
// `end`, so that it is met exactly.
Tensor linspace(double begin, double end, std::int64_t count, DType dtype = DType::kF32);
// [rows, columns] with ones on the diagonal; columns -1 = rows.
Tensor eye(std::int64_t rows, std::int64_t columns = -1, DType dtype = DType::kF32);
// Of another's shape, dtype and device.
Tensor zeros_like(const Tensor& other);
Tensor ones_like(const Tensor& other);
Tensor full_like(const Tensor& other, double value);

}  // namespace hvd
