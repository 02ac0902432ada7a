#include "horovod_cpp/autograd/functions/statistics.h"

#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/copy.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/kernels/reduce/rows.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

void require_floating(const Tensor& a, const char* function) {
  if (is_floating(a.dtype())) return;
  throw InvalidArgumentError(std::string(function) + ": takes a floating dtype, got " +
                             std::string(name_of(a.dtype())));
}

// How many elements the axes of `mask` have together.
double count_of(const Tensor& a, const std::vector<bool>& mask) {
  double count = 1.0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) count *= static_cast<double>(a.shape()[i]);
  }
  return count;
}

// Makes a function of rows one of any axis. `of_rows` keeps the number of axes.
template <typename OfRows>
Tensor along(const Tensor& a, std::int64_t at, OfRows of_rows) {
  if (at == a.dim() - 1) return of_rows(kernels::contiguous(a.detach()));
  return kernels::contiguous(of_rows(a.detach().transpose(at, -1).contiguous()).transpose(at, -1));
}

ValuesAndIndices extreme(const Tensor& a, std::int64_t axis, bool largest, bool keepdim,
                         const char* name) {
  Tensor indices = kernels::arg_extreme(a, axis, largest, true, name);
  Tensor values = gather(a, axis, indices);
  if (keepdim) return {values, indices};
  return {values.squeeze(axis), indices.squeeze(axis)};
}

Tensor running_sum(const Tensor& a, std::int64_t at, bool reverse) {
  return autograd::mapped(
      a, along(a, at, [&](const Tensor& rows) { return kernels::cumsum(rows, reverse); }), "cumsum",
      [=](const Tensor& gradient) { return running_sum(gradient, at, !reverse); });
}

}  // namespace

ValuesAndIndices max(const Tensor& a, std::int64_t axis, bool keepdim) {
  return extreme(a, axis, true, keepdim, "max");
}

ValuesAndIndices min(const Tensor& a, std::int64_t axis, bool keepdim) {
  return extreme(a, axis, false, keepdim, "min");
}

Tensor max(const Tensor& a) {
  return extreme(a.reshape({-1}), 0, true, false, "max").values;
}

Tensor min(const Tensor& a) {
  return extreme(a.reshape({-1}), 0, false, false, "min").values;
}

Tensor argmax(const Tensor& a, std::int64_t axis, bool keepdim) {
  return kernels::arg_extreme(a, axis, true, keepdim, "argmax");
}

Tensor argmax(const Tensor& a) {
  return argmax(a.detach().reshape({-1}), 0);
}

Tensor argmin(const Tensor& a, std::int64_t axis, bool keepdim) {
  return kernels::arg_extreme(a, axis, false, keepdim, "argmin");
}

Tensor argmin(const Tensor& a) {
  return argmin(a.detach().reshape({-1}), 0);
}

Tensor var(const Tensor& a, std::vector<std::int64_t> axes, double correction, bool keepdim) {
  require_floating(a, "var");
  if (autograd::raises(a)) return var(autograd::widened(a), std::move(axes), correction, keepdim);
  const double count = count_of(a, shapes::axis_mask(axes, a.dim(), "var"));
  const double divisor = std::max(count - correction, 0.0);
  return sum(square(a - mean(a, axes, true)), axes, keepdim) / divisor;
}

Tensor std(const Tensor& a, std::vector<std::int64_t> axes, double correction, bool keepdim) {
  require_floating(a, "std");
  return sqrt(var(a, std::move(axes), correction, keepdim));
}

Tensor norm(const Tensor& a, double p, std::vector<std::int64_t> axes, bool keepdim) {
  require_floating(a, "norm");
  if (autograd::raises(a)) return norm(autograd::widened(a), p, std::move(axes), keepdim);
  if (!(p > 0.0)) throw InvalidArgumentError("norm: p = " + std::to_string(p));
  const std::vector<bool> mask = shapes::axis_mask(axes, a.dim(), "norm");
  const Tensor size = abs(a);
  if (p == 1.0) return sum(size, axes, keepdim);
  if (std::isinf(p)) {
    Tensor largest = size;
    for (std::int64_t i = 0; i < a.dim(); ++i) {
      if (mask[static_cast<std::size_t>(i)]) largest = max(largest, i, true).values;
    }
    return largest.reshape(shapes::reduced(a.shape(), mask, keepdim));
  }
  // Where all are 0 the root has no slope: its operand becomes 1 there and the result 0.
  const Tensor total = sum(p == 2.0 ? square(a) : pow(size, p), axes, keepdim);
  const Tensor nothing = eq(total, 0.0);
  const Tensor safe = masked_fill(total, nothing, 1.0);
  return masked_fill(p == 2.0 ? sqrt(safe) : pow(safe, 1.0 / p), nothing, 0.0);
}

Tensor prod(const Tensor& a, std::int64_t axis, bool keepdim) {
  if (autograd::raises(a)) return prod(autograd::widened(a), axis, keepdim);
  const std::int64_t at = shapes::axis(axis, a.dim(), "prod");
  const Tensor rows = kernels::rows_along(a.detach(), at);
  Tensor result = kernels::prod(rows);
  if (keepdim) result = result.unsqueeze(at);
  if (!autograd::should_record({&a})) return result;
  return autograd::record(
      std::move(result), "prod", {autograd::edge_to(a)},
      [rows = autograd::Saved(rows), at, keepdim](const Tensor& gradient) {
        const Tensor others = kernels::prod_of_others(rows.get("prod"));
        const Tensor row = (keepdim ? gradient.squeeze(at) : gradient).unsqueeze(-1);
        std::vector<std::int64_t> back;  // the last axis returns to its place
        for (std::int64_t i = 0; i + 1 < others.dim(); ++i) back.push_back(i);
        back.insert(back.begin() + static_cast<std::ptrdiff_t>(at), others.dim() - 1);
        return std::vector<Tensor>{mul(row, others).permute(back)};
      });
}

Tensor prod(const Tensor& a) {
  return prod(a.reshape({-1}), 0);
}

Tensor cumsum(const Tensor& a, std::int64_t axis) {
  if (autograd::raises(a)) return cumsum(autograd::widened(a), axis);
  return running_sum(a, shapes::axis(axis, a.dim(), "cumsum"), false);
}

Tensor argsort(const Tensor& a, std::int64_t axis, bool descending) {
  const std::int64_t at = shapes::axis(axis, a.dim(), "sort");
  return along(a, at, [&](const Tensor& rows) { return kernels::argsort(rows, descending); });
}

ValuesAndIndices sort(const Tensor& a, std::int64_t axis, bool descending) {
  Tensor indices = argsort(a, axis, descending);
  Tensor values = gather(a, axis, indices);
  return {std::move(values), std::move(indices)};
}

ValuesAndIndices topk(const Tensor& a, std::int64_t k, std::int64_t axis, bool largest) {
  const std::int64_t at = shapes::axis(axis, a.dim(), "topk");
  if (k < 0 || k > a.size(at)) {
    throw InvalidArgumentError("topk: k = " + std::to_string(k) + " of axis " +
                               std::to_string(axis) + " of shape " + to_string(a.shape()));
  }
  Tensor indices = argsort(a, at, largest).slice(at, 0, k).contiguous();
  Tensor values = gather(a, at, indices);
  return {std::move(values), std::move(indices)};
}

Tensor bincount(const Tensor& a, std::int64_t minlength) {
  shapes::require_dim(a, 1, "bincount", "the input");
  if (a.dtype() != DType::kI64 || minlength < 0) {
    throw InvalidArgumentError("bincount: takes int64 and a minlength of 0 or more, got " +
                               std::string(name_of(a.dtype())) + " and " +
                               std::to_string(minlength));
  }
  return kernels::bincount(kernels::contiguous(a), minlength);
}

}  // namespace hvd
