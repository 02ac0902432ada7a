#include "horovod_cpp/autograd/functions/window.h"

#include "horovod_cpp/autograd/functions/indexing.h"

namespace hvd {
namespace autograd {

Tensor recorded_max_pool_grad(const Tensor& gradient, const Tensor& index, const Shape& shape) {
  const std::int64_t planes = shape[0] * shape[1];
  const Shape places = {planes, index.size(2) * index.size(3)};
  const Tensor zeros = Tensor::zeros({planes, shape[2] * shape[3]}, gradient.dtype());
  return scatter_add(zeros, 1, index.to(DType::kI64).reshape(places), gradient.reshape(places))
      .reshape(shape);
}

}  // namespace autograd
}  // namespace hvd
