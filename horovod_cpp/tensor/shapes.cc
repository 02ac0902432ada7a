#include "horovod_cpp/tensor/shapes.h"

#include <algorithm>

#include "core/base/status.h"

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
    throw InvalidArgumentError(std::string(function) + ": axis " + std::to_string(axis) +
                               " of a tensor with " + std::to_string(dim) + " axes");
  }
  return axis < 0 ? axis + dim : axis;
}

std::vector<bool> axis_mask(const std::vector<std::int64_t>& axes, std::int64_t dim,
                            const char* function) {
  std::vector<bool> mask(static_cast<std::size_t>(dim), axes.empty());
  for (const std::int64_t given : axes) {
    const auto index = static_cast<std::size_t>(axis(given, dim, function));
    if (mask[index]) {
      throw InvalidArgumentError(std::string(function) + ": axis " + std::to_string(given) +
                                 " is given twice");
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
      throw InvalidArgumentError(std::string(function) + ": shapes " + to_string(a) + " and " +
                                 to_string(b) + " do not broadcast");
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
      throw InvalidArgumentError(std::string(function) + ": shape " + to_string(shape) +
                                 " does not broadcast to " + to_string(target));
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
    throw InvalidArgumentError(std::string(function) + ": dtypes " +
                               std::string(name_of(a.dtype())) + " and " +
                               std::string(name_of(b.dtype())) + " differ; convert one with to()");
  }
}

void require_float(const Tensor& tensor, const char* function) {
  if (tensor.dtype() != DType::kF32 && tensor.dtype() != DType::kF64) {
    const char* expected = is_floating(tensor.dtype()) ? "float32 or float64" : "a floating dtype";
    throw InvalidArgumentError(std::string(function) + ": takes " + expected + ", got " +
                               std::string(name_of(tensor.dtype())));
  }
}

void require_dim(const Tensor& tensor, std::int64_t dim, const char* function, const char* what) {
  if (tensor.dim() != dim) {
    throw InvalidArgumentError(std::string(function) + ": " + what + " needs " +
                               std::to_string(dim) + " axes, got shape " +
                               to_string(tensor.shape()));
  }
}

}  // namespace shapes
}  // namespace hvd
