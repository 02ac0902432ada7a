#include "horovod_cpp/tensor/shapes.h"

#include <algorithm>
#include <optional>

#include "core/base/status.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/layout.h"

namespace hvd {
namespace shapes {

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

std::int64_t axis(std::int64_t axis, std::int64_t dim, const char* function) {
  if (axis < -dim || axis >= dim) {
    throw InvalidArgumentError(function, ": axis ", axis, " of a tensor with ", dim, " axes");
  }
  return axis < 0 ? axis + dim : axis;
}

std::vector<bool> axis_mask(const std::vector<std::int64_t>& axes, std::int64_t dim,
                            const char* function) {
  std::vector<bool> mask(static_cast<std::size_t>(dim), axes.empty());
  for (const std::int64_t given : axes) {
    const auto index = static_cast<std::size_t>(axis(given, dim, function));
    if (mask[index]) {
      throw InvalidArgumentError(function, ": axis ", given, " is given twice");
    }
    mask[index] = true;
  }
  return mask;
}

Shape broadcast(const Shape& a, const Shape& b, const char* function) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t lead = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& extent = result[lead + i];
    if (extent == 1) {
      extent = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != extent) {
      throw InvalidArgumentError(function, ": shapes ", a, " and ", b, " do not broadcast");
    }
  }
  return result;
}

std::vector<std::int64_t> broadcast_strides(const Shape& shape,
                                            const std::vector<std::int64_t>& strides,
                                            const Shape& target, const char* function) {
  std::vector<std::int64_t> result(target.size(), 0);
  const bool fits = shape.size() <= target.size();
  const std::size_t lead = fits ? target.size() - shape.size() : 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!fits || (shape[i] != target[lead + i] && shape[i] != 1)) {
      throw InvalidArgumentError(function, ": shape ", shape, " does not broadcast to ", target);
    }
    if (shape[i] == target[lead + i]) result[lead + i] = strides[i];
  }
  return result;
}

Shape reduced(const Shape& shape, const std::vector<bool>& mask, bool keepdim) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!mask[i]) {
      result.push_back(shape[i]);
    } else if (keepdim) {
      result.push_back(1);
    }
  }
  return result;
}

void require_same_dtype(const Tensor& a, const Tensor& b, const char* function) {
  if (a.dtype() != b.dtype()) {
    throw InvalidArgumentError(function, ": dtypes ", a.dtype(), " and ", b.dtype(),
                               " differ; convert one with to()");
  }
}

void require_floating(const Tensor& tensor, const char* function) {
  if (is_floating(tensor.dtype())) return;
  throw InvalidArgumentError(function, ": takes a floating dtype, got ", tensor.dtype());
}

void require_float(const Tensor& tensor, const char* function) {
  require_floating(tensor, function);
  if (tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kF64) return;
  throw InvalidArgumentError(function, ": takes float32 or float64, got ", tensor.dtype());
}

void require_dim(const Tensor& tensor, std::int64_t dim, const char* function, const char* what) {
  if (tensor.dim() != dim) {
    throw InvalidArgumentError(function, ": ", what, " needs ", dim, " axes, got shape ",
                               tensor.shape());
  }
}

}  // namespace shapes
namespace kernels {
namespace {

using Strides = std::vector<std::int64_t>;

// Strides that read `a`'s memory as `shape`, if there are any: each run of axes that lie densely
// within each other may be cut again.
std::optional<Strides> viewed_strides(const Tensor& a, const Shape& shape) {
  if (a.is_contiguous()) return shapes::row_major_strides(shape);
  Strides strides(shape.size(), 1);
  std::size_t out = shape.size();
  std::int64_t run = 1;  // elements of the run so far, innermost axes first
  std::int64_t filled = 1;
  std::int64_t base = 1;
  for (std::size_t i = a.shape().size(); i-- > 0;) {
    if (run == 1) base = a.strides()[i];
    run *= a.shape()[i];
    const bool ends = i == 0 || (a.shape()[i - 1] != 1 && a.strides()[i - 1] != run * base);
    if (!ends) continue;
    while (out > 0 && (filled < run || shape[out - 1] == 1)) {
      --out;
      strides[out] = filled * base;
      filled *= shape[out];
    }
    if (filled != run) return std::nullopt;
    run = filled = 1;
  }
  return out == 0 ? std::optional(strides) : std::nullopt;
}

}  // namespace

Shape inferred_shape(const Shape& shape, const Tensor& a, const char* function) {
  Shape result = shape;
  const auto fail = [&] {
    throw InvalidArgumentError(function, ": shape ", a.shape(), " cannot become ", shape);
  };
  const auto unknown = std::find(result.begin(), result.end(), -1);
  if (unknown != result.end()) {
    *unknown = 1;
    if (std::find(result.begin(), result.end(), -1) != result.end()) fail();
    const std::int64_t known = numel_of(result);
    if (known == 0 || a.numel() % known != 0) fail();
    *unknown = a.numel() / known;
  }
  if (numel_of(result) != a.numel()) fail();
  return result;
}

Tensor reshape(const Tensor& a, const Shape& shape) {
  Shape target = inferred_shape(shape, a, "reshape");
  if (auto strides = viewed_strides(a, target)) {
    return make_view(a, std::move(target), std::move(*strides));
  }
  const Tensor copy = clone(a);
  Strides strides = shapes::row_major_strides(target);
  return make_view(copy, std::move(target), std::move(strides));
}

Tensor permute(const Tensor& a, const std::vector<std::int64_t>& axes) {
  if (static_cast<std::int64_t>(axes.size()) != a.dim()) {
    throw InvalidArgumentError("permute: ", axes.size(), " axes for shape ", a.shape());
  }
  shapes::axis_mask(axes, a.dim(), "permute");  // refuses a repeated one
  Shape shape;
  Strides strides;
  for (const std::int64_t given : axes) {
    const auto axis = static_cast<std::size_t>(shapes::axis(given, a.dim(), "permute"));
    shape.push_back(a.shape()[axis]);
    strides.push_back(a.strides()[axis]);
  }
  return make_view(a, std::move(shape), std::move(strides));
}

Tensor slice(const Tensor& a, std::int64_t axis, std::int64_t begin, std::int64_t end,
             std::int64_t step) {
  const auto at = static_cast<std::size_t>(shapes::axis(axis, a.dim(), "slice"));
  const std::int64_t extent = a.shape()[at];
  const std::int64_t first = begin < 0 ? begin + extent : begin;
  const std::int64_t last = end < 0 ? end + extent : end;
  if (first < 0 || last > extent || first > last) {
    throw InvalidArgumentError("slice: [", begin, ", ", end, ") of axis ", axis, " of shape ",
                               a.shape());
  }
  if (step < 1) throw InvalidArgumentError("slice: step ", step);
  Shape shape = a.shape();
  shape[at] = first == last ? 0 : (last - first - 1) / step + 1;
  Strides strides = a.strides();
  const std::int64_t offset = first == last ? 0 : first * strides[at];
  // Steps beyond the end lead from one element to nothing; the largest would overflow here.
  strides[at] *= std::min(step, std::max<std::int64_t>(extent, 1));
  return make_view(a, std::move(shape), std::move(strides), offset);
}

Tensor select(const Tensor& a, std::int64_t axis, std::int64_t index) {
  const auto at = static_cast<std::size_t>(shapes::axis(axis, a.dim(), "select"));
  const std::int64_t extent = a.shape()[at];
  if (index < -extent || index >= extent) {
    throw InvalidArgumentError("select: index ", index, " of axis ", axis, " of shape ", a.shape());
  }
  const std::int64_t offset = (index < 0 ? index + extent : index) * a.strides()[at];
  Shape shape = a.shape();
  Strides strides = a.strides();
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(at));
  return make_view(a, std::move(shape), std::move(strides), offset);
}

Tensor expand(const Tensor& a, const Shape& shape) {
  numel_of(shape);  // refuses negative extents
  return make_view(a, shape, shapes::broadcast_strides(a.shape(), a.strides(), shape, "expand"));
}

Tensor alias(const Tensor& a) {
  return make_view(a, a.shape(), a.strides());
}

}  // namespace kernels
}  // namespace hvd
