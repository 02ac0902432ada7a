// The differentiable views and copies of Tensor: the raw one, and how its gradient goes back.
#include "horovod_cpp/tensor/kernels/views.h"

#include <numeric>

#include "core/base/status.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/kernels/reduce.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::should_record;

// Records an operation of one input whose gradient is `backward(gradient)`.
template <typename Function>
Tensor recorded(const Tensor& input, Tensor result, const char* name, Function backward) {
  if (!should_record({&input}) || !is_floating(result.dtype())) return result;
  if (result.is(input)) return result;
  return autograd::record(std::move(result), name, {edge_to(input)},
                          [backward = std::move(backward)](const Tensor& gradient) {
                            return std::vector<Tensor>{backward(gradient)};
                          });
}

// A gradient that is zero but for the part that a view showed.
template <typename View>
Tensor scatter(const Shape& shape, const Tensor& gradient, View view) {
  Tensor result = Tensor::zeros(shape, gradient.dtype());
  kernels::copy_into(view(result), gradient);
  return result;
}

}  // namespace

Tensor Tensor::reshape(Shape shape) const {
  return recorded(
      *this, kernels::reshape(*this, shape), "reshape",
      [from = this->shape()](const Tensor& gradient) { return kernels::reshape(gradient, from); });
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
  return recorded(*this, std::move(result), "permute",
                  [inverse = std::move(inverse)](const Tensor& gradient) {
                    return kernels::permute(gradient, inverse);
                  });
}

Tensor Tensor::transpose(std::int64_t a, std::int64_t b) const {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(dim()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(shapes::axis(a, dim(), "transpose"))],
            axes[static_cast<std::size_t>(shapes::axis(b, dim(), "transpose"))]);
  return permute(std::move(axes));
}

Tensor Tensor::slice(std::int64_t axis, std::int64_t begin, std::int64_t end) const {
  return recorded(*this, kernels::slice(*this, axis, begin, end), "slice",
                  [shape = shape(), axis, begin, end](const Tensor& gradient) {
                    return scatter(shape, gradient, [&](const Tensor& all) {
                      return kernels::slice(all, axis, begin, end);
                    });
                  });
}

Tensor Tensor::select(std::int64_t axis, std::int64_t index) const {
  return recorded(*this, kernels::select(*this, axis, index), "select",
                  [shape = shape(), axis, index](const Tensor& gradient) {
                    return scatter(shape, gradient, [&](const Tensor& all) {
                      return kernels::select(all, axis, index);
                    });
                  });
}

Tensor Tensor::expand(Shape shape) const {
  return recorded(
      *this, kernels::expand(*this, shape), "expand",
      [from = this->shape()](const Tensor& gradient) { return kernels::sum_to(gradient, from); });
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
  return recorded(
      *this, kernels::to(*this, dtype), "to",
      [from = this->dtype()](const Tensor& gradient) { return kernels::to(gradient, from); });
}

}  // namespace hvd
