// The differentiable views and copies of Tensor: the raw one, and how its gradient goes back.
#include "horovod_cpp/tensor/shapes.h"

#include <numeric>

#include "core/base/status.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd {
namespace {

// Records an operation of one input whose gradient is `backward(gradient)`.
template <typename Function>
Tensor recorded(const Tensor& input, Tensor result, const char* name, Function backward) {
  if (result.is(input)) return result;
  return autograd::mapped(input, std::move(result), name, std::move(backward));
}

// A tensor of `shape` that is zero but for the part that `view` shows.
template <typename View>
Tensor embedded(const Shape& shape, const Tensor& part, const char* name, View view) {
  Tensor result = Tensor::zeros(shape, part.dtype(), part.device());
  kernels::copy_into(view(result), part);
  return autograd::mapped(part, std::move(result), name,
                          [view](const Tensor& gradient) { return view(gradient); });
}

}  // namespace

Tensor Tensor::reshape(Shape shape) const {
  return recorded(
      *this, kernels::reshape(*this, shape), "reshape",
      [from = this->shape()](const Tensor& gradient) { return gradient.reshape(from); });
}

Tensor Tensor::flatten(std::int64_t first_axis) const {
  if (dim() == 0) return reshape({1});
  const std::int64_t first = shapes::axis(first_axis, dim(), "flatten");
  Shape result(shape().begin(), shape().begin() + static_cast<std::ptrdiff_t>(first));
  result.push_back(std::accumulate(shape().begin() + static_cast<std::ptrdiff_t>(first),
                                   shape().end(), std::int64_t{1}, std::multiplies<>()));
  return reshape(std::move(result));
}

Tensor Tensor::unsqueeze(std::int64_t axis) const {
  const std::int64_t at = shapes::axis(axis, dim() + 1, "unsqueeze");
  Shape result = shape();
  result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), 1);
  return reshape(std::move(result));
}

Tensor Tensor::squeeze(std::int64_t axis) const {
  const std::int64_t at = shapes::axis(axis, dim(), "squeeze");
  if (size(at) != 1) {
    throw InvalidArgumentError("squeeze: axis " + std::to_string(axis) + " of shape " +
                               to_string(shape()) + " is not 1");
  }
  Shape result = shape();
  result.erase(result.begin() + static_cast<std::ptrdiff_t>(at));
  return reshape(std::move(result));
}

Tensor Tensor::permute(std::vector<std::int64_t> axes) const {
  Tensor result = kernels::permute(*this, axes);
  std::vector<std::int64_t> inverse(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    inverse[static_cast<std::size_t>(shapes::axis(axes[i], dim(), "permute"))] =
        static_cast<std::int64_t>(i);
  }
  return recorded(
      *this, std::move(result), "permute",
      [inverse = std::move(inverse)](const Tensor& gradient) { return gradient.permute(inverse); });
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(dim()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(shapes::axis(a, dim(), "transpose"))],
            axes[static_cast<std::size_t>(shapes::axis(b, dim(), "transpose"))]);
  return permute(std::move(axes));
}

Tensor Tensor::slice(std::int64_t axis, std::int64_t begin, std::int64_t end,
                     std::int64_t step) const {
  return recorded(*this, kernels::slice(*this, axis, begin, end, step), "slice",
                  [shape = shape(), axis, begin, end, step](const Tensor& gradient) {
                    return embedded(shape, gradient, "slice", [=](const Tensor& all) {
                      return all.slice(axis, begin, end, step);
                    });
                  });
}

Tensor Tensor::select(std::int64_t axis, std::int64_t index) const {
  return recorded(*this, kernels::select(*this, axis, index), "select",
                  [shape = shape(), axis, index](const Tensor& gradient) {
                    return embedded(shape, gradient, "select",
                                    [=](const Tensor& all) { return all.select(axis, index); });
                  });
}

Tensor Tensor::expand(Shape shape) const {
  return recorded(
      *this, kernels::expand(*this, shape), "expand",
      [from = this->shape()](const Tensor& gradient) { return autograd::sum_to(gradient, from); });
}

Tensor Tensor::contiguous() const {
  return recorded(*this, kernels::contiguous(*this), "contiguous",
                  [](const Tensor& gradient) { return gradient; });
}

Tensor Tensor::clone() const {
  return recorded(*this, kernels::clone(*this), "clone",
                  [](const Tensor& gradient) { return gradient; });
}

Tensor Tensor::to(DType dtype) const {
  return recorded(*this, kernels::to(*this, dtype), "to",
                  [from = this->dtype()](const Tensor& gradient) { return gradient.to(from); });
}

Tensor Tensor::to(Device device) const {
  return recorded(*this, kernels::to_device(*this, device), "to",
                  [from = this->device()](const Tensor& gradient) { return gradient.to(from); });
}

}  // namespace hvd
