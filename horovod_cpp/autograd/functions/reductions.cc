#include <algorithm>
#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::mapped;
using autograd::Saved;

// How many elements the axes of `mask` have together.
double count_of(const Tensor& a, const std::vector<bool>& mask) {
  double count = 1.0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) count *= static_cast<double>(a.shape()[i]);
  }
  return count;
}

// The sum over `mask`, times `factor`.
Tensor scaled_sum(const Tensor& a, const std::vector<bool>& mask, bool keepdim, double factor,
                  const char* name) {
  if (autograd::raises(a)) return scaled_sum(autograd::widened(a), mask, keepdim, factor, name);
  Tensor result = kernels::sum(a, mask, keepdim);
  if (factor != 1.0) kernels::scale(result, factor);
  return mapped(a, std::move(result), name,
                [shape = a.shape(), kept = shapes::reduced(a.shape(), mask, true),
                 factor](const Tensor& gradient) {
                  const Tensor scaled = factor == 1.0 ? gradient : gradient * factor;
                  return scaled.reshape(kept).expand(shape);
                });
}

// `function` of a in float64, rounded as autocast has it: there no square of a float32 overflows,
// and numbers that are far from 0 keep the digits in which they differ.
template <typename Function>
Tensor in_float64(const Tensor& a, Function function) {
  const DType rounded = autograd::raises(a) ? DType::kF32 : a.dtype();
  return autograd::cast(function(autograd::cast(a, DType::kF64)), rounded);
}

using Forward = Tensor (*)(const Tensor&);
using Backward = Tensor (*)(const Tensor&, const Tensor&);

// A function of rows along `axis` whose gradient follows from its result: `backward`(g, y) in one
// pass, and `recorded`(g, y), the same made of recorded functions.
Tensor along(const Tensor& a, std::int64_t axis, const char* name, Forward forward,
             Backward backward, Backward recorded) {
  require_cpu(name, {&a});
  if (autograd::is_half(a)) {
    const Tensor wide = along(autograd::widened(a), axis, name, forward, backward, recorded);
    return autograd::rounded_back(wide, a);
  }
  shapes::require_float(a, name);
  const std::int64_t at = shapes::axis(axis, a.dim(), name);
  if (at != a.dim() - 1) {
    // Exchanging two axes is its own inverse.
    return along(a.transpose(at, -1), -1, name, forward, backward, recorded).transpose(at, -1);
  }
  Tensor result = forward(kernels::contiguous(a));
  const Saved y = Saved::result(result);
  return mapped(a, std::move(result), name, [=](const Tensor& gradient) {
    if (grad_enabled()) return recorded(gradient, y.get(name));
    return backward(kernels::contiguous(gradient), y.get(name));
  });
}

}  // namespace

Tensor sum(const Tensor& a, std::vector<std::int64_t> axes, bool keepdim) {
  return scaled_sum(a, shapes::axis_mask(axes, a.dim(), "sum"), keepdim, 1.0, "sum");
}

Tensor mean(const Tensor& a, std::vector<std::int64_t> axes, bool keepdim) {
  shapes::require_floating(a, "mean");
  if (autograd::is_half(a)) {
    return autograd::rounded_back(mean(autograd::widened(a), std::move(axes), keepdim), a);
  }
  const std::vector<bool> mask = shapes::axis_mask(axes, a.dim(), "mean");
  return scaled_sum(a, mask, keepdim, 1.0 / count_of(a, mask), "mean");
}

Tensor softmax(const Tensor& a, std::int64_t axis) {
  return along(a, axis, "softmax", kernels::softmax, kernels::softmax_grad,
               [](const Tensor& g, const Tensor& y) { return y * (g - sum(g * y, {-1}, true)); });
}

Tensor log_softmax(const Tensor& a, std::int64_t axis) {
  return along(a, axis, "log_softmax", kernels::log_softmax, kernels::log_softmax_grad,
               [](const Tensor& g, const Tensor& y) { return g - exp(y) * sum(g, {-1}, true); });
}

namespace {

// Makes a function of rows one of any axis. `of_rows` keeps the number of axes.
template <typename OfRows>
Tensor by_rows(const Tensor& a, std::int64_t at, OfRows of_rows) {
  if (at == a.dim() - 1) return of_rows(kernels::contiguous(a.detach()));
  return kernels::contiguous(of_rows(a.detach().transpose(at, -1).contiguous()).transpose(at, -1));
}

Tensor order_along(const Tensor& a, std::int64_t at, bool descending) {
  return by_rows(a, at, [&](const Tensor& rows) { return kernels::argsort(rows, descending); });
}

ValuesAndIndices extreme(const Tensor& a, std::int64_t axis, bool largest, bool keepdim,
                         const char* name) {
  Tensor indices = kernels::arg_extreme(a, axis, largest, true, name);
  Tensor values = gather(a, axis, indices);
  if (keepdim) return {values, indices};
  return {values.squeeze(axis), indices.squeeze(axis)};
}

// `values`, the largest or smallest elements of `a` along some axes, which they keep, as a function
// of `a`: equal ones share the gradient.
Tensor shared_by_ties(const Tensor& a, const Tensor& values, const char* name) {
  Tensor result = values.detach();
  const Saved x(a), y = Saved::result(result);
  return mapped(a, std::move(result), name, [=](const Tensor& gradient) {
    const Tensor all = x.get(name), found = y.get(name);
    const Tensor ties = logical_or(eq(all, found), logical_and(isnan(all), isnan(found)));
    const Tensor shares = ties.to(gradient.dtype());
    return gradient / autograd::sum_to(shares, gradient.shape()) * shares;
  });
}

Tensor extreme_of_all(const Tensor& a, bool largest, const char* name) {
  const Tensor flat = a.reshape({-1});
  return shared_by_ties(flat, extreme(flat.detach(), 0, largest, true, name).values, name)
      .squeeze(0);
}

// root(total), whose slope where all is 0 would be infinite: there the gradient is 0.
template <typename Root>
Tensor root_of(const Tensor& total, Root root) {
  const Tensor nothing = eq(total, 0.0);
  return masked_fill(root(masked_fill(total, nothing, 1.0)), nothing, 0.0);
}

Tensor running_sum(const Tensor& a, std::int64_t at, bool reverse) {
  return mapped(
      a, by_rows(a, at, [&](const Tensor& rows) { return kernels::cumsum(rows, reverse); }),
      "cumsum", [=](const Tensor& gradient) { return running_sum(gradient, at, !reverse); });
}

}  // namespace

ValuesAndIndices max(const Tensor& a, std::int64_t axis, bool keepdim) {
  return extreme(a, axis, true, keepdim, "max");
}

ValuesAndIndices min(const Tensor& a, std::int64_t axis, bool keepdim) {
  return extreme(a, axis, false, keepdim, "min");
}

Tensor max(const Tensor& a) {
  return extreme_of_all(a, true, "max");
}

Tensor min(const Tensor& a) {
  return extreme_of_all(a, false, "min");
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
  shapes::require_floating(a, "var");
  const double count = count_of(a, shapes::axis_mask(axes, a.dim(), "var"));
  const double divisor = std::max(count - correction, 0.0);
  return in_float64(a, [&](const Tensor& x) {
    return sum(square(x - mean(x, axes, true)), axes, keepdim) / divisor;
  });
}

Tensor std(const Tensor& a, std::vector<std::int64_t> axes, double correction, bool keepdim) {
  shapes::require_floating(a, "std");
  return in_float64(
      a, [&](const Tensor& x) { return root_of(var(x, axes, correction, keepdim), sqrt); });
}

Tensor norm(const Tensor& a, double p, std::vector<std::int64_t> axes, bool keepdim) {
  shapes::require_floating(a, "norm");
  if (autograd::is_half(a)) {
    return autograd::rounded_back(norm(autograd::widened(a), p, std::move(axes), keepdim), a);
  }
  if (!(p > 0.0)) throw InvalidArgumentError("norm: p = ", p);
  const std::vector<bool> mask = shapes::axis_mask(axes, a.dim(), "norm");
  const Tensor size = abs(a);
  if (p == 1.0) return sum(size, axes, keepdim);
  if (std::isinf(p)) {
    Tensor largest = size.detach();
    for (std::int64_t i = 0; i < a.dim(); ++i) {
      if (!mask[static_cast<std::size_t>(i)]) continue;
      largest = extreme(largest, i, true, true, "norm").values;
    }
    return shared_by_ties(size, largest, "norm").reshape(shapes::reduced(a.shape(), mask, keepdim));
  }
  if (p == 2.0) return root_of(sum(square(a), axes, keepdim), sqrt);
  const auto power = [p](const Tensor& x) { return pow(x, p); };
  const auto root = [p](const Tensor& x) { return pow(x, 1.0 / p); };
  return root_of(sum(root_of(size, power), axes, keepdim), root);
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
      [rows = Saved(rows), at, keepdim](const Tensor& gradient) {
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
  return order_along(a, shapes::axis(axis, a.dim(), "argsort"), descending);
}

ValuesAndIndices sort(const Tensor& a, std::int64_t axis, bool descending) {
  Tensor indices = order_along(a, shapes::axis(axis, a.dim(), "sort"), descending);
  Tensor values = gather(a, axis, indices);
  return {std::move(values), std::move(indices)};
}

ValuesAndIndices topk(const Tensor& a, std::int64_t k, std::int64_t axis, bool largest) {
  const std::int64_t at = shapes::axis(axis, a.dim(), "topk");
  if (k < 0 || k > a.size(at)) {
    throw InvalidArgumentError("topk: k = ", k, " of axis ", axis, " of shape ", a.shape());
  }
  Tensor indices = argsort(a, at, largest).slice(at, 0, k).contiguous();
  Tensor values = gather(a, at, indices);
  return {std::move(values), std::move(indices)};
}

Tensor bincount(const Tensor& a, std::int64_t minlength) {
  shapes::require_dim(a, 1, "bincount", "the input");
  if (a.dtype() != DType::kI64 || minlength < 0) {
    throw InvalidArgumentError("bincount: takes int64 and a minlength of 0 or more, got ",
                               a.dtype(), " and ", minlength);
  }
  return kernels::bincount(kernels::contiguous(a), minlength);
}

}  // namespace hvd
