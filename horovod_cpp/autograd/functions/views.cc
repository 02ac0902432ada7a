// The differentiable views and copies of Tensor: the raw one, and how its gradient goes back; and
// what is made of them.
#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::mapped;

// A tensor of `shape` that is zero except in the part that `view` shows.
template <typename View>
Tensor embedded(const Shape& shape, const Tensor& part, const char* name, View view) {
  Tensor result = Tensor::zeros(shape, part.dtype(), part.device());
  kernels::copy_into(view(result), part);
  return mapped(part, std::move(result), name,
                [view](const Tensor& gradient) { return view(gradient); });
}

}  // namespace

Tensor Tensor::reshape(Shape shape) const {
  return mapped(*this, kernels::reshape(*this, shape), "reshape",
                [from = this->shape()](const Tensor& gradient) { return gradient.reshape(from); });
}

Tensor Tensor::flatten(std::int64_t start_dim, std::int64_t end_dim) const {
  if (dim() == 0) return reshape({1});
  const std::int64_t first = shapes::axis(start_dim, dim(), "flatten");
  const std::int64_t last = shapes::axis(end_dim, dim(), "flatten");
  if (first > last) {
    throw InvalidArgumentError("flatten: start_dim ", start_dim, " comes after end_dim ", end_dim);
  }
  Shape result = shape();
  const auto begin = result.begin() + first;
  const auto end = result.begin() + last + 1;
  *begin = std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
  result.erase(begin + 1, end);
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
    throw InvalidArgumentError("squeeze: axis ", axis, " of shape ", shape(), " is not 1");
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
  return mapped(
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
  return mapped(*this, kernels::slice(*this, axis, begin, end, step), "slice",
                [shape = shape(), axis, begin, end, step](const Tensor& gradient) {
                  return embedded(shape, gradient, "slice", [=](const Tensor& all) {
                    return all.slice(axis, begin, end, step);
                  });
                });
}

Tensor Tensor::select(std::int64_t axis, std::int64_t index) const {
  return mapped(*this, kernels::select(*this, axis, index), "select",
                [shape = shape(), axis, index](const Tensor& gradient) {
                  return embedded(shape, gradient, "select",
                                  [=](const Tensor& all) { return all.select(axis, index); });
                });
}

Tensor Tensor::expand(Shape shape) const {
  const std::int64_t missing = std::ssize(shape) - dim();
  for (std::int64_t i = std::max<std::int64_t>(missing, 0); i < std::ssize(shape); ++i) {
    auto& extent = shape[static_cast<std::size_t>(i)];
    if (extent == -1) extent = size(i - missing);
  }
  return mapped(
      *this, kernels::expand(*this, shape), "expand",
      [from = this->shape()](const Tensor& gradient) { return autograd::sum_to(gradient, from); });
}

Tensor Tensor::contiguous() const {
  return mapped(*this, kernels::contiguous(*this), "contiguous",
                [](const Tensor& gradient) { return gradient; });
}

Tensor Tensor::clone() const {
  return mapped(*this, kernels::clone(*this), "clone",
                [](const Tensor& gradient) { return gradient; });
}

Tensor Tensor::to(DType dtype) const {
  return mapped(*this, kernels::to(*this, dtype), "to",
                [from = this->dtype()](const Tensor& gradient) { return gradient.to(from); });
}

Tensor Tensor::to(Device device) const {
  return mapped(*this, kernels::to_device(*this, device), "to",
                [from = this->device()](const Tensor& gradient) { return gradient.to(from); });
}

namespace {

Tensor joined(const std::vector<Tensor>& given, std::int64_t axis, const char* name) {
  if (given.empty()) throw InvalidArgumentError(name, ": no tensors");
  const std::vector<Tensor> parts = autograd::in_one_dtype(given);
  const std::int64_t at = shapes::axis(axis, parts[0].dim(), name);
  Shape shape = parts[0].shape();
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  bool wanted = false;
  for (const Tensor& part : parts) {
    shapes::require_same_dtype(parts[0], part, name);
    require_same_device(name, parts[0], part);
    Shape expected = shape;
    if (part.dim() == parts[0].dim()) expected[static_cast<std::size_t>(at)] = part.size(at);
    if (part.shape() != expected) {
      throw InvalidArgumentError(name, ": shapes ", shape, " and ", part.shape(), " along axis ",
                                 axis);
    }
    total += part.size(at);
    sizes.push_back(part.size(at));
    wanted = wanted || autograd::should_record({&part});
  }
  shape[static_cast<std::size_t>(at)] = total;
  Tensor result = Tensor::empty(shape, parts[0].dtype(), parts[0].device());
  const std::vector<Tensor> places = split(result, sizes, at);
  std::vector<autograd::Edge> inputs;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    kernels::copy_into(places[i], parts[i]);
    inputs.push_back(autograd::edge_to(parts[i]));
  }
  if (!wanted) return result;
  return autograd::record(
      std::move(result), name, std::move(inputs),
      [at, sizes](const Tensor& gradient) { return split(gradient, sizes, at); },
      autograd::Order::kAny);
}

}  // namespace

Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis) {
  return joined(parts, axis, "concat");
}

Tensor cat(const std::vector<Tensor>& parts, std::int64_t axis) {
  return joined(parts, axis, "cat");
}

Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis) {
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) rows.push_back(part.unsqueeze(axis));
  return joined(rows, axis, "stack");
}

namespace {

// Column minus row of each element of [rows, columns].
Tensor diagonals(const Tensor& a, const char* function) {
  if (a.dim() < 2) {
    throw InvalidArgumentError(function, ": takes matrices, got shape ", a.shape());
  }
  return Tensor::arange(a.size(-1)) - Tensor::arange(a.size(-2)).unsqueeze(1);
}

}  // namespace

std::vector<Tensor> split(const Tensor& a, const std::vector<std::int64_t>& sizes,
                          std::int64_t axis) {
  const std::int64_t extent = a.size(axis);
  std::int64_t left = extent;
  const bool fit = std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t size) {
    if (size < 0 || size > left) return false;
    left -= size;
    return true;
  });
  if (!fit || left != 0) {
    throw InvalidArgumentError("split: sizes ", sizes, " of axis ", axis, " of shape ", a.shape());
  }
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(a.slice(axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& a, std::int64_t size, std::int64_t axis) {
  if (size < 1) throw InvalidArgumentError("split: parts of ", size);
  const std::int64_t extent = a.size(axis);
  std::vector<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < extent; begin += size) {
    sizes.push_back(std::min(size, extent - begin));
  }
  if (sizes.empty()) sizes.push_back(0);
  return split(a, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& a, std::int64_t count, std::int64_t axis) {
  if (count < 1) throw InvalidArgumentError("chunk: ", count, " chunks");
  const std::int64_t last = std::max<std::int64_t>(a.size(axis), 1) - 1;
  return split(a, last / count + 1, axis);
}

Tensor flip(const Tensor& a, std::vector<std::int64_t> axes) {
  if (axes.empty()) return a.clone();
  shapes::axis_mask(axes, a.dim(), "flip");  // refuses a repeated one
  Tensor result = a;
  for (const std::int64_t axis : axes) {
    const std::int64_t extent = a.size(axis);
    result = index_select(result, axis, static_cast<double>(extent - 1) - Tensor::arange(extent));
  }
  return result;
}

Tensor repeat(const Tensor& a, const std::vector<std::int64_t>& repeats) {
  const auto lead = std::ssize(repeats) - a.dim();
  const bool negative =
      std::any_of(repeats.begin(), repeats.end(), [](auto count) { return count < 0; });
  const auto refuse = [&] {
    throw InvalidArgumentError("repeat: ", repeats, " times shape ", a.shape());
  };
  if (lead < 0 || negative) refuse();
  // Each axis gets one in front of it to repeat along, then the two become one.
  Shape apart;
  Shape repeated;
  Shape shape;
  for (std::int64_t i = 0; i < std::ssize(repeats); ++i) {
    const std::int64_t extent = i < lead ? 1 : a.size(i - lead);
    const std::int64_t count = repeats[static_cast<std::size_t>(i)];
    if (extent > 0 && count > std::numeric_limits<std::int64_t>::max() / extent) refuse();
    apart.insert(apart.end(), {1, extent});
    repeated.insert(repeated.end(), {count, extent});
    shape.push_back(count * extent);
  }
  return a.reshape(apart).expand(repeated).clone().reshape(shape);
}

Tensor tril(const Tensor& a, std::int64_t diagonal) {
  return masked_fill(a, diagonals(a, "tril") > static_cast<double>(diagonal), 0.0);
}

Tensor triu(const Tensor& a, std::int64_t diagonal) {
  return masked_fill(a, diagonals(a, "triu") < static_cast<double>(diagonal), 0.0);
}

}  // namespace hvd
