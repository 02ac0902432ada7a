#pragma once

#include <cstdint>

#include "horovod_cpp/autograd/row_gradient.h"

namespace hvd {
namespace optim {

// Calls update(row of the parameter, its gradient, where the row starts, elements of a row) for
// each row that has a gradient. T is the parameter's type.
template <typename T, typename Update>
void for_each_row(const Tensor& param, const RowGradient& grad, const Update& update) {
  if (grad.rows.numel() == 0) return;
  const std::int64_t size = grad.values.numel() / grad.rows.numel();
  const T* gradient = grad.values.data<T>();
  for (std::int64_t i = 0; i < grad.rows.numel(); ++i, gradient += size) {
    const std::int64_t start = grad.rows.data<std::int64_t>()[i] * size;
    update(param.data<T>() + start, gradient, start, size);
  }
}

}  // namespace optim
}  // namespace hvd
