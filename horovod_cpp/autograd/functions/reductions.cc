#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::mapped;
using autograd::Saved;
using autograd::should_record;

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

using Forward = Tensor (*)(const Tensor&);
using Backward = Tensor (*)(const Tensor&, const Tensor&);

// A function of rows along `axis` whose gradient follows from its result: `backward`(g, y) in one
// pass, and `recorded`(g, y), the same made of recorded functions.
Tensor along(const Tensor& a, std::int64_t axis, const char* name, Forward forward,
             Backward backward, Backward recorded) {
  require_cpu(name, {&a});
  if (autograd::is_half(a)) {
    return autograd::in_float32(a, [&](const Tensor& wide) {
      return along(wide, axis, name, forward, backward, recorded);
    });
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
  if (!is_floating(a.dtype())) {
    throw InvalidArgumentError("mean: takes a floating dtype, got " +
                               std::string(name_of(a.dtype())));
  }
  const std::vector<bool> mask = shapes::axis_mask(axes, a.dim(), "mean");
  double count = 1.0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) count *= static_cast<double>(a.shape()[i]);
  }
  return scaled_sum(a, mask, keepdim, 1.0 / count, "mean");
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

Tensor joined(const std::vector<Tensor>& given, std::int64_t axis, const char* name) {
  if (given.empty()) throw InvalidArgumentError(std::string(name) + ": no tensors");
  const std::vector<Tensor> parts = autograd::in_one_dtype(given);
  const std::int64_t at = shapes::axis(axis, parts[0].dim(), name);
  Shape shape = parts[0].shape();
  std::vector<std::int64_t> ends;
  std::int64_t total = 0;
  bool wanted = false;
  for (const Tensor& part : parts) {
    shapes::require_same_dtype(parts[0], part, name);
    require_same_device(name, parts[0], part);
    Shape expected = shape;
    if (part.dim() == parts[0].dim()) expected[static_cast<std::size_t>(at)] = part.size(at);
    if (part.shape() != expected) {
      throw InvalidArgumentError(std::string(name) + ": shapes " + to_string(shape) + " and " +
                                 to_string(part.shape()) + " along axis " + std::to_string(axis));
    }
    total += part.size(at);
    ends.push_back(total);
    wanted = wanted || should_record({&part});
  }
  shape[static_cast<std::size_t>(at)] = total;
  Tensor result = Tensor::empty(shape, parts[0].dtype(), parts[0].device());
  const auto begin = [ends](std::size_t i) { return i == 0 ? 0 : ends[i - 1]; };
  std::vector<autograd::Edge> inputs;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    kernels::copy_into(kernels::slice(result, at, begin(i), ends[i]), parts[i]);
    inputs.push_back(edge_to(parts[i]));
  }
  if (!wanted) return result;
  return autograd::record(
      std::move(result), name, std::move(inputs),
      [at, begin, ends](const Tensor& gradient) {
        std::vector<Tensor> gradients;
        for (std::size_t i = 0; i < ends.size(); ++i) {
          gradients.push_back(gradient.slice(at, begin(i), ends[i]));
        }
        return gradients;
      },
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

}  // namespace hvd
