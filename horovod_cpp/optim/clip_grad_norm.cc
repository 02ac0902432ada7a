#include "horovod_cpp/optim/clip_grad_norm.h"

#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/tensor/dispatch.h"

namespace hvd {
namespace optim {
namespace {

double sum_of_squares(const Tensor& tensor) {
  const Tensor values = tensor.contiguous();
  return dispatch_float(values.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* first = values.data<T>();
    double sum = 0;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      sum += static_cast<double>(first[i]) * static_cast<double>(first[i]);
    }
    return sum;
  });
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& params, double max_norm) {
  if (!(max_norm > 0)) {
    throw InvalidArgumentError("clip_grad_norm: max_norm " + std::to_string(max_norm) +
                               " must be above 0");
  }
  const NoGradGuard no_grad;
  double squares = 0;
  for (const Tensor& param : params) {
    if (param.grad().defined()) squares += sum_of_squares(param.grad());
  }
  const double norm = std::sqrt(squares);
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (const Tensor& param : params) {
    if (param.grad().defined()) param.grad().mul_(factor);
  }
  return norm;
}

}  // namespace optim
}  // namespace hvd
