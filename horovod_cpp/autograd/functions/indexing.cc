#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/kernels/indexing/indexing.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::mapped;
using autograd::recorded;
using autograd::Saved;

// -1 if there are none that are not negative.
std::int64_t largest_class(const Tensor& classes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / sizeof(std::int64_t);
  const Tensor flat = kernels::contiguous(classes);
  const std::int64_t* in = flat.data<std::int64_t>();
  std::int64_t largest = -1;
  for (std::int64_t i = 0; i < flat.numel(); ++i) largest = std::max(largest, in[i]);
  if (largest < kMost) return largest;
  throw InvalidArgumentError("one_hot: class ", largest, " needs over 2^63 bytes");
}

// The gradient of a source of which the first elements along each axis were used.
Tensor padded(const Tensor& gradient, const Shape& shape) {
  Tensor result = gradient;
  for (std::int64_t axis = 0; axis < gradient.dim(); ++axis) {
    const std::int64_t missing = shape[static_cast<std::size_t>(axis)] - result.size(axis);
    if (missing == 0) continue;
    Shape rest = result.shape();
    rest[static_cast<std::size_t>(axis)] = missing;
    result = concat({result, Tensor::zeros(rest, result.dtype())}, axis);
  }
  return result;
}

void require_unrecorded(const Tensor& a, const Tensor& source, const char* function) {
  if (!autograd::should_record({&a, &source})) return;
  throw InvalidArgumentError(function,
                             ": a tensor that requires grad takes part, and this is not recorded; "
                             "use where(), scatter() or index_add(), or a NoGradGuard");
}

// The coordinates of a mask's true elements, one int64 tensor for each of its axes.
std::vector<Tensor> coordinates(const Tensor& mask) {
  const Tensor positions = nonzero(mask);
  std::vector<Tensor> result;
  for (std::int64_t axis = 0; axis < mask.dim(); ++axis) {
    result.push_back(positions.select(1, axis));
  }
  return result;
}

// One int64 index, or none, for each of the first axes of `a`.
std::vector<Tensor> expanded(const Tensor& a, const std::vector<Tensor>& indices) {
  std::vector<Tensor> result;
  for (const Tensor& given : indices) {
    if (!given.defined() || given.dtype() != DType::kBool) {
      result.push_back(given);
      continue;
    }
    for (std::int64_t i = 0; i < given.dim(); ++i) {
      const auto at = static_cast<std::int64_t>(result.size()) + i;
      if (at < a.dim() && given.size(i) == a.size(at)) continue;
      throw InvalidArgumentError("index: mask ", given.shape(), " for a tensor ", a.shape());
    }
    for (Tensor& each : coordinates(given)) result.push_back(std::move(each));
  }
  if (static_cast<std::int64_t>(result.size()) > a.dim()) {
    throw InvalidArgumentError("index: ", result.size(), " indices for a tensor ", a.shape());
  }
  return result;
}

}  // namespace

Tensor gather(const Tensor& a, std::int64_t axis, const Tensor& index) {
  return mapped(a, kernels::gather(a, axis, index, "gather"), "gather",
                [axis, at = Saved(index), shape = a.shape()](const Tensor& gradient) {
                  return scatter_add(Tensor::zeros(shape, gradient.dtype()), axis, at.get("gather"),
                                     gradient);
                });
}

Tensor scatter(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source) {
  Tensor result = kernels::clone(a);
  kernels::scatter(result, axis, index, source, false, "scatter");
  const Saved at(index);
  return recorded(
      std::move(result), "scatter", {&a, &source},
      [=](const Tensor& gradient) {
        return scatter(gradient, axis, at.get("scatter"),
                       Tensor::zeros(at.get("scatter").shape(), gradient.dtype()));
      },
      [=, shape = source.shape()](const Tensor& gradient) {
        return padded(gather(gradient, axis, at.get("scatter")), shape);
      });
}

Tensor scatter_add(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source) {
  Tensor result = kernels::clone(a);
  kernels::scatter(result, axis, index, source, true, "scatter_add");
  return recorded(
      std::move(result), "scatter_add", {&a, &source},
      [](const Tensor& gradient) { return gradient; },
      [axis, at = Saved(index), shape = source.shape()](const Tensor& gradient) {
        return padded(gather(gradient, axis, at.get("scatter_add")), shape);
      });
}

void scatter_(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source) {
  require_unrecorded(a, source, "scatter_");
  refuse_expanded(a, "scatter_");
  kernels::scatter(a, axis, index, source, false, "scatter_");
}

void scatter_add_(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source) {
  require_unrecorded(a, source, "scatter_add_");
  refuse_expanded(a, "scatter_add_");
  kernels::scatter(a, axis, index, source, true, "scatter_add_");
}

Tensor index_select(const Tensor& a, std::int64_t axis, const Tensor& index) {
  return mapped(a, kernels::index_select(a, axis, index, "index_select"), "index_select",
                [axis, at = Saved(index), shape = a.shape()](const Tensor& gradient) {
                  return index_add(Tensor::zeros(shape, gradient.dtype()), axis,
                                   at.get("index_select"), gradient);
                });
}

Tensor index_add(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source,
                 double alpha) {
  Tensor result = kernels::clone(a);
  kernels::index_add(result, axis, index, source, alpha, "index_add");
  return recorded(
      std::move(result), "index_add", {&a, &source},
      [](const Tensor& gradient) { return gradient; },
      [axis, at = Saved(index), alpha](const Tensor& gradient) {
        const Tensor picked = index_select(gradient, axis, at.get("index_add"));
        return alpha == 1.0 ? picked : picked * alpha;
      });
}

Tensor index(const Tensor& a, const std::vector<Tensor>& indices) {
  const std::vector<Tensor> given = expanded(a, indices);
  std::vector<std::int64_t> picked;  // axes
  std::vector<std::int64_t> rest;
  std::vector<Tensor> positions;
  Shape extents;
  for (std::int64_t axis = 0; axis < a.dim(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (at >= given.size() || !given[at].defined()) {
      rest.push_back(axis);
      continue;
    }
    picked.push_back(axis);
    positions.push_back(given[at]);
    extents.push_back(a.size(axis));
  }
  if (picked.empty()) return a.clone();
  const Tensor flat = kernels::flat_positions(positions, extents, "index");
  std::vector<std::int64_t> order = picked;
  order.insert(order.end(), rest.begin(), rest.end());
  Shape rows = {numel_of(extents)};
  Shape shape = flat.shape();
  for (const std::int64_t axis : rest) {
    rows.push_back(a.size(axis));
    shape.push_back(a.size(axis));
  }
  const Tensor chosen =
      index_select(a.permute(order).reshape(rows), 0, flat.reshape({flat.numel()})).reshape(shape);
  const bool neighbours = picked.back() - picked.front() + 1 == std::ssize(picked);
  if (!neighbours || picked.front() == 0) return chosen;
  // The new axes go where the picked ones were.
  std::vector<std::int64_t> back;
  for (std::int64_t i = 0; i < picked.front(); ++i) back.push_back(flat.dim() + i);
  for (std::int64_t i = 0; i < flat.dim(); ++i) back.push_back(i);
  for (auto i = flat.dim() + picked.front(); i < chosen.dim(); ++i) back.push_back(i);
  return chosen.permute(back).contiguous();
}

void index_put_(const Tensor& a, const std::vector<Tensor>& indices, const Tensor& values,
                bool accumulate) {
  require_unrecorded(a, values, "index_put_");
  refuse_expanded(a, "index_put_");
  shapes::require_same_dtype(a, values, "index_put_");
  // Which elements of `a` are meant, by picking from their row-major numbers.
  const Tensor numbers = Tensor::arange(a.numel()).reshape(a.shape());
  const Tensor at = index(numbers, indices);
  const Tensor source = kernels::contiguous(kernels::expand(values, at.shape()));
  const Tensor dense = a.is_contiguous() ? a.detach() : kernels::clone(a);
  kernels::scatter(kernels::reshape(dense, {-1}), 0, at.reshape({at.numel()}),
                   kernels::reshape(source, {at.numel()}), accumulate, "index_put_");
  if (!a.is_contiguous()) kernels::copy_into(a, dense);
}

Tensor masked_select(const Tensor& a, const Tensor& mask) {
  if (mask.dtype() != DType::kBool) {
    throw InvalidArgumentError("masked_select: the mask is bool, not ", mask.dtype());
  }
  const Shape shape = shapes::broadcast(a.shape(), mask.shape(), "masked_select");
  return index_select(a.expand(shape).reshape({numel_of(shape)}), 0,
                      kernels::flat_nonzero(kernels::expand(mask, shape)));
}

Tensor nonzero(const Tensor& a) {
  Tensor flat = kernels::flat_nonzero(a);
  Tensor result = Tensor::empty({flat.numel(), a.dim()}, DType::kI64);
  const std::int64_t* in = flat.data<std::int64_t>();
  std::int64_t* out = result.data<std::int64_t>();
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    std::int64_t left = in[i];
    for (std::int64_t axis = a.dim(); axis-- > 0;) {
      out[i * a.dim() + axis] = left % a.size(axis);
      left /= a.size(axis);
    }
  }
  return result;
}

Tensor one_hot(const Tensor& classes, std::int64_t class_count) {
  require_cpu("one_hot", {&classes});
  if (classes.dtype() != DType::kI64) {
    throw InvalidArgumentError("one_hot: takes int64 classes, not ", classes.dtype());
  }
  if (class_count == -1) class_count = largest_class(classes) + 1;
  Shape shape = classes.shape();
  shape.push_back(class_count);
  Tensor result = Tensor::zeros(shape, DType::kI64);
  kernels::scatter(result, -1, classes.unsqueeze(-1),
                   Tensor::scalar(1, DType::kI64).expand(classes.unsqueeze(-1).shape()), false,
                   "one_hot");
  return result;
}

namespace {

void check(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  require_cpu("embedding", {&indices, &weight});
  if (indices.dtype() != DType::kI64 || weight.dim() != 2) {
    throw InvalidArgumentError("embedding: indices ", indices.dtype(), " ", indices.shape(),
                               " and weight ", weight.shape(),
                               ": expected int64 and [num_embeddings, embedding_dim]");
  }
  const std::int64_t count = weight.size(0);
  if (padding_idx && (*padding_idx < -count || *padding_idx >= count)) {
    throw InvalidArgumentError("embedding: padding_idx ", *padding_idx, " for weight ",
                               weight.shape());
  }
  const Tensor flat = kernels::contiguous(indices);
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const std::int64_t index = flat.data<std::int64_t>()[i];
    if (index >= 0 && index < count) continue;
    throw InvalidArgumentError("embedding: index ", index, " at position ", i, " of ",
                               indices.shape(), " for weight ", weight.shape());
  }
}

// Positions whose index is not `padding`.
Tensor positions_without(const Tensor& rows, std::int64_t padding) {
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    if (rows.data<std::int64_t>()[i] != padding) kept.push_back(i);
  }
  return Tensor::from(kept, {static_cast<std::int64_t>(kept.size())});
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx, bool sparse) {
  check(indices, weight, padding_idx);
  const Tensor rows = kernels::clone(kernels::contiguous(indices)).reshape({-1});
  Shape shape = indices.shape();
  shape.push_back(weight.size(1));
  Tensor result = kernels::reshape(kernels::gather_rows(weight, rows), shape);
  if (!autograd::should_record({&weight})) return result;
  std::int64_t padding = padding_idx.value_or(-1 - weight.size(0));
  if (padding_idx && padding < 0) padding += weight.size(0);
  const bool by_rows = sparse && weight.is_leaf();
  return autograd::record(
      std::move(result), "embedding", {autograd::edge_to(weight)},
      [rows, padding, shape = weight.shape(),
       leaf = by_rows ? autograd::substitute_for(weight) : Tensor()](const Tensor& gradient) {
        const Tensor kept = positions_without(rows, padding);
        if (grad_enabled()) {
          const Tensor flat = gradient.reshape({rows.numel(), shape[1]});
          return std::vector<Tensor>{index_add(Tensor::zeros(shape, gradient.dtype()), 0,
                                               kernels::gather_rows(rows, kept),
                                               index_select(flat, 0, kept))};
        }
        const Tensor flat =
            kernels::reshape(kernels::contiguous(gradient), {rows.numel(), shape[1]});
        const Tensor values = kernels::gather_rows(flat, kept);
        const Tensor where = kernels::gather_rows(rows, kept);
        if (leaf.defined() && autograd::takes_rows(leaf)) {
          autograd::deliver_rows(leaf, where, values);
          return std::vector<Tensor>(1);
        }
        Tensor dense = Tensor::zeros(shape, gradient.dtype());
        kernels::add_rows(dense, where, values);
        return std::vector<Tensor>{dense};
      },
      autograd::Order::kAny);
}

}  // namespace hvd
