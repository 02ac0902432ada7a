#include "horovod_cpp/optim/clip_grad_norm.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/impl.h"

namespace hvd::optim {
namespace {

// Half-precision gradients are looked at in float32.
Tensor computable(const Tensor& grad) {
  return grad.to(grad.dtype() == DType::kF64 ? DType::kF64 : DType::kF32).contiguous();
}

// The larger one; a NaN is larger than any number.
double larger(double a, double b) {
  return b <= a || std::isnan(a) ? a : b;
}

// In float64, by what tensors of devices have.
double part_of_norm_on_device(const Tensor& grad, double norm_type) {
  if (norm_type != 1 && norm_type != 2) {
    require_cpu("clip_grad_norm with a norm_type other than 1 and 2", {&grad});
  }
  const Tensor values = grad.to(DType::kF64);
  return sum(norm_type == 2 ? values * values : abs(values)).item();
}

// Sum of |x|^norm_type, or the largest |x|.
double part_of_norm(const Tensor& grad, double norm_type) {
  if (!is_on_cpu(grad)) return part_of_norm_on_device(grad, norm_type);
  const Tensor values = computable(grad);
  return dispatch_float(values.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* first = values.data<T>();
    if (norm_type == 2) return isa::table().of<T>().sum_squares(first, T{0}, values.numel());
    double part = 0;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const double magnitude = std::abs(static_cast<double>(first[i]));
      part =
          std::isinf(norm_type) ? larger(part, magnitude) : part + std::pow(magnitude, norm_type);
    }
    return part;
  });
}

double norm_of(const std::vector<Tensor>& params, double norm_type) {
  double norm = 0;
  for (const Tensor& param : params) {
    const Tensor grad = gradient_values(param);
    if (!grad.defined()) continue;
    const double part = part_of_norm(grad, norm_type);
    norm = std::isinf(norm_type) ? larger(norm, part) : norm + part;
  }
  if (std::isinf(norm_type)) return norm;
  return norm_type == 2 ? std::sqrt(norm) : std::pow(norm, 1 / norm_type);
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& params, double max_norm,
                       const ClipGradNormOptions& options) {
  if (!(max_norm > 0)) {
    throw InvalidArgumentError("clip_grad_norm: max_norm ", max_norm, " must be above 0");
  }
  if (!(options.norm_type > 0)) {
    throw InvalidArgumentError("clip_grad_norm: norm_type ", options.norm_type, " must be above 0");
  }
  const NoGradGuard no_grad;
  const double norm = norm_of(params, options.norm_type);
  if (options.error_if_nonfinite && !std::isfinite(norm)) {
    throw InvalidArgumentError("clip_grad_norm: the gradients' norm of order ", options.norm_type,
                               " is ", norm);
  }
  const double factor = max_norm / (norm + 1e-6);
  if (factor >= 1) return norm;
  for (const Tensor& param : params) {
    if (Tensor grad = gradient_values(param); grad.defined()) grad.mul_(factor);
  }
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& params, double clip_value) {
  if (!(clip_value >= 0)) {
    throw InvalidArgumentError("clip_grad_value: clip_value ", clip_value, " must be at least 0");
  }
  const NoGradGuard no_grad;
  for (const Tensor& param : params) {
    Tensor grad = gradient_values(param);
    if (!grad.defined()) continue;
    require_cpu("clip_grad_value", {&grad});
    const Tensor values = computable(grad);
    dispatch_float(values.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T bound = static_cast<T>(clip_value);
      for (T& value : std::span(values.data<T>(), static_cast<std::size_t>(values.numel()))) {
        value = std::clamp(value, -bound, bound);
      }
    });
    if (values.is(grad)) {
      bump_version(grad);
    } else {
      grad.copy_(values);
    }
  }
}

}  // namespace hvd::optim
