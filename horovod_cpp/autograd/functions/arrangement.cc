#include "horovod_cpp/autograd/functions/functions.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

// Column minus row of each element of [rows, columns].
Tensor diagonals(const Tensor& a, const char* function) {
  if (a.dim() < 2) {
    throw InvalidArgumentError(std::string(function) + ": takes matrices, got shape " +
                               to_string(a.shape()));
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
    throw InvalidArgumentError("split: sizes " + to_string(sizes) + " of axis " +
                               std::to_string(axis) + " of shape " + to_string(a.shape()));
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
  if (size < 1) throw InvalidArgumentError("split: parts of " + std::to_string(size));
  const std::int64_t extent = a.size(axis);
  std::vector<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < extent; begin += size) {
    sizes.push_back(std::min(size, extent - begin));
  }
  if (sizes.empty()) sizes.push_back(0);
  return split(a, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& a, std::int64_t count, std::int64_t axis) {
  if (count < 1) throw InvalidArgumentError("chunk: " + std::to_string(count) + " chunks");
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
    throw InvalidArgumentError("repeat: " + to_string(repeats) + " times shape " +
                               to_string(a.shape()));
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
