#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/functions/losses.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::computes_in_float32;
using autograd::edge_to;
using autograd::requires_grad;
using autograd::Saved;
using autograd::widened;

// A loss is a type with functions of one input, its target and a factor (1 but for pos_weight):
// the loss, and its slopes against input and target. The slopes come a second time as recorded
// functions of tensors, for those who differentiate them.

// Losses of the difference d = input - target: value(d) and slope(d).
template <typename Loss>
struct OfDifference : Loss {
  double loss(double x, double t, double) const { return this->value(x - t); }
  double input_slope(double x, double t, double) const { return this->slope(x - t); }
  double target_slope(double x, double t, double) const { return -this->slope(x - t); }
  Tensor input_slope(const Tensor& x, const Tensor& t, const Tensor&) const {
    return this->slope(x - t);
  }
  Tensor target_slope(const Tensor& x, const Tensor& t, const Tensor&) const {
    return neg(this->slope(x - t));
  }
};

struct Squared {
  double value(double d) const { return d * d; }
  double slope(double d) const { return 2 * d; }
  Tensor slope(const Tensor& d) const { return d * 2.0; }
};

struct Absolute {
  double value(double d) const { return std::abs(d); }
  double slope(double d) const { return d > 0 ? 1 : d < 0 ? -1 : d; }  // a NaN stays
  Tensor slope(const Tensor& d) const { return sign(d); }
};

// Quadratic within +-delta, linear beyond.
struct Huber {
  double delta;
  double value(double d) const {
    const double size = std::abs(d);
    return size < delta ? d * d / 2 : delta * (size - delta / 2);
  }
  double slope(double d) const { return std::clamp(d, -delta, delta); }
  Tensor slope(const Tensor& d) const { return clamp(d, -delta, delta); }
};

struct SmoothL1 {
  double beta;
  double value(double d) const {
    const double size = std::abs(d);
    return size < beta ? d * d / (2 * beta) : size - beta / 2;
  }
  double slope(double d) const { return std::abs(d) < beta ? d / beta : Absolute().slope(d); }
  Tensor slope(const Tensor& d) const {
    return beta == 0 ? sign(d) : clamp(d * (1 / beta), -1.0, 1.0);
  }
};

struct CrossEntropy {
  double loss(double x, double t, double) const {
    return -t * std::max(std::log(x), -100.0) - (1 - t) * std::max(std::log1p(-x), -100.0);
  }
  double input_slope(double x, double t, double) const {
    return (x - t) / std::max(x * (1 - x), 1e-12);
  }
  double target_slope(double x, double, double) const {
    return std::max(std::log1p(-x), -100.0) - std::max(std::log(x), -100.0);
  }
  Tensor input_slope(const Tensor& x, const Tensor& t, const Tensor&) const {
    return (x - t) / clamp(x * (1.0 - x), 1e-12);
  }
  Tensor target_slope(const Tensor& x, const Tensor&, const Tensor&) const {
    return clamp(log1p(neg(x)), -100.0) - clamp(log(x), -100.0);
  }
};

struct CrossEntropyOfLogits {
  // log(1 + e^-|x|): log(1 + e^-x) without its -x where x < 0
  static double bounded(double x) { return std::log1p(std::exp(-std::abs(x))); }
  double loss(double x, double t, double factor) const {
    return (1 - t) * x + (1 + (factor - 1) * t) * (bounded(x) + std::max(-x, 0.0));
  }
  double input_slope(double x, double t, double factor) const {
    return (1 - t) - (1 + (factor - 1) * t) / (1 + std::exp(x));
  }
  // (factor - 1) * log(1 + e^-x) - x, in an order that subtracts no infinity from another
  double target_slope(double x, double, double factor) const {
    return (factor - 1) * bounded(x) - (x < 0 ? factor * x : x);
  }
  Tensor input_slope(const Tensor& x, const Tensor& t, const Tensor& factor) const {
    return (1.0 - t) - ((factor - 1.0) * t + 1.0) * sigmoid(neg(x));
  }
  Tensor target_slope(const Tensor& x, const Tensor&, const Tensor& factor) const {
    const Tensor none = Tensor::zeros({}, x.dtype());
    return (factor - 1.0) * log1p(exp(neg(abs(x)))) - maximum(x, none) - factor * minimum(x, none);
  }
};

struct KLDivergence {
  double loss(double x, double t, double) const { return (t == 0 ? 0 : t * std::log(t)) - t * x; }
  double input_slope(double, double t, double) const { return -t; }
  double target_slope(double x, double t, double) const { return std::log(t) + 1 - x; }
  Tensor input_slope(const Tensor&, const Tensor& t, const Tensor&) const { return neg(t); }
  Tensor target_slope(const Tensor& x, const Tensor& t, const Tensor&) const {
    return log(t) + 1.0 - x;
  }
};

struct KLDivergenceOfLogs {
  double loss(double x, double t, double) const { return std::exp(t) * (t - x); }
  double input_slope(double, double t, double) const { return -std::exp(t); }
  double target_slope(double x, double t, double) const { return std::exp(t) * (t - x + 1); }
  Tensor input_slope(const Tensor&, const Tensor& t, const Tensor&) const { return neg(exp(t)); }
  Tensor target_slope(const Tensor& x, const Tensor& t, const Tensor&) const {
    return exp(t) * (t - x + 1.0);
  }
};

// Calls `visit(i, input, target, factor)` for every element. All three are contiguous, or `factor`
// is undefined.
template <typename T, typename Visit>
void for_each_element(const Tensor& input, const Tensor& target, const Tensor& factor,
                      Visit visit) {
  const T* x = input.data<T>();
  const T* t = target.data<T>();
  const T* f = factor.defined() ? factor.data<T>() : nullptr;
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    visit(i, static_cast<double>(x[i]), static_cast<double>(t[i]),
          f == nullptr ? 1.0 : static_cast<double>(f[i]));
  }
}

double divisor(const Tensor& input, LossReduction reduction) {
  if (reduction == LossReduction::kMean) return static_cast<double>(input.numel());
  if (reduction == LossReduction::kBatchMean) {
    return static_cast<double>(input.dim() == 0 ? 1 : input.size(0));
  }
  return 1.0;
}

template <typename Loss>
Tensor forward(const Loss& loss, const Tensor& x, const Tensor& t, const Tensor& factor,
               LossReduction reduction) {
  const bool each = reduction == LossReduction::kNone;
  Tensor result = Tensor::zeros(each ? x.shape() : Shape{}, x.dtype());
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = result.data<T>();
    double total = 0.0;
    for_each_element<T>(x, t, factor, [&](std::int64_t i, double a, double b, double f) {
      const double value = loss.loss(a, b, f);
      if (each) out[i] = static_cast<T>(value);
      total += value;
    });
    if (!each) *out = static_cast<T>(total / divisor(x, reduction));
  });
  return result;
}

// gradient (one for each element, or one for all) times slope(input, target, factor)
template <typename Slope>
Tensor backward(const Tensor& gradient, double divided_by, const Tensor& x, const Tensor& t,
                const Tensor& factor, Slope slope) {
  Tensor result = Tensor::empty(x.shape(), x.dtype());
  const Tensor g = kernels::contiguous(kernels::expand(gradient, x.shape()));
  dispatch_float(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = result.data<T>();
    const T* scale = g.data<T>();
    for_each_element<T>(x, t, factor, [&](std::int64_t i, double a, double b, double f) {
      out[i] = static_cast<T>(static_cast<double>(scale[i]) / divided_by * slope(a, b, f));
    });
  });
  return result;
}

void check_shapes(const char* name, const Tensor& input, const Tensor& target) {
  shapes::require_same_dtype(input, target, name);
  shapes::require_float(input, name);
  if (input.shape() == target.shape()) return;
  throw InvalidArgumentError(std::string(name) + ": shapes " + to_string(input.shape()) + " and " +
                             to_string(target.shape()) + " differ");
}

template <typename Loss>
Tensor pointwise(const char* name, const Loss& loss, const Tensor& input, const Tensor& target,
                 LossReduction reduction, const Tensor& factor = {}) {
  require_cpu(name, {&input, &target});
  if (computes_in_float32({&input, &target})) {
    return autograd::in_float32(input, [&](const Tensor& wide) {
      return pointwise(name, loss, wide, widened(target), reduction, widened(factor));
    });
  }
  check_shapes(name, input, target);
  const Tensor x = input.contiguous();
  const Tensor t = target.contiguous();
  Tensor result = forward(loss, x, t, factor, reduction);
  if (!autograd::should_record({&x, &t})) return result;
  return autograd::record(
      std::move(result), name, {edge_to(x), edge_to(t)},
      [=, x_saved = Saved(x), t_saved = Saved(t), divided_by = divisor(x, reduction),
       x_wanted = requires_grad(input), t_wanted = requires_grad(target)](const Tensor& gradient) {
        const Tensor& a = x_saved.get(name);
        const Tensor& b = t_saved.get(name);
        std::vector<Tensor> gradients(2);
        if (grad_enabled()) {
          const Tensor f = factor.defined() ? factor : Tensor::ones({}, a.dtype());
          const Tensor g = gradient * (1.0 / divided_by);
          if (x_wanted) gradients[0] = g * loss.input_slope(a, b, f);
          if (t_wanted) gradients[1] = g * loss.target_slope(a, b, f);
          return gradients;
        }
        if (x_wanted) {
          gradients[0] =
              backward(gradient, divided_by, a, b, factor,
                       [&](double v, double w, double f) { return loss.input_slope(v, w, f); });
        }
        if (t_wanted) {
          gradients[1] =
              backward(gradient, divided_by, a, b, factor,
                       [&](double v, double w, double f) { return loss.target_slope(v, w, f); });
        }
        return gradients;
      },
      autograd::Order::kAny);
}

void refuse_batch_mean(const char* name, LossReduction reduction) {
  if (reduction != LossReduction::kBatchMean) return;
  throw InvalidArgumentError(std::string(name) + ": batchmean is a reduction of kl_div alone");
}

void check_at_least(const char* name, const char* what, double value, double least) {
  if (value >= least) return;
  throw InvalidArgumentError(std::string(name) + ": " + what + " " + std::to_string(value) +
                             " is too small");
}

// Throws, naming `what`, unless there is one for each element of the input once broadcast.
void require_spread(const char* name, const char* what, const Tensor& given, const Tensor& input) {
  const std::string named = std::string(name) + ": " + what;
  shapes::broadcast_strides(given.shape(), given.strides(), input.shape(), named.c_str());
}

// The losses of all elements, times `weight`, reduced.
template <typename Loss>
Tensor weighted(const char* name, const Loss& loss, const Tensor& input, const Tensor& target,
                const Tensor& weight, LossReduction reduction, const Tensor& factor = {}) {
  if (!weight.defined()) return pointwise(name, loss, input, target, reduction, factor);
  require_spread(name, "weight", weight, input);
  const Tensor losses = mul(pointwise(name, loss, input, target, LossReduction::kNone, factor),
                            weight.expand(input.shape()));
  if (reduction == LossReduction::kNone) return losses;
  return reduction == LossReduction::kSum ? sum(losses) : mean(losses);
}

void check_probabilities(const Tensor& input) {
  for (const double value : input.to_vector()) {
    if (value >= 0.0 && value <= 1.0) continue;
    throw InvalidArgumentError("binary_cross_entropy: input " + std::to_string(value) +
                               " is not within [0, 1]; use binary_cross_entropy_with_logits");
  }
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, LossReduction reduction) {
  refuse_batch_mean("mse_loss", reduction);
  return pointwise("mse_loss", OfDifference<Squared>{}, input, target, reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, LossReduction reduction) {
  refuse_batch_mean("l1_loss", reduction);
  return pointwise("l1_loss", OfDifference<Absolute>{}, input, target, reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, LossReduction reduction,
                  double delta) {
  refuse_batch_mean("huber_loss", reduction);
  check_at_least("huber_loss", "delta", delta, std::numeric_limits<double>::min());
  return pointwise("huber_loss", OfDifference<Huber>{{delta}}, input, target, reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, LossReduction reduction,
                      double beta) {
  refuse_batch_mean("smooth_l1_loss", reduction);
  check_at_least("smooth_l1_loss", "beta", beta, 0.0);
  return pointwise("smooth_l1_loss", OfDifference<SmoothL1>{{beta}}, input, target, reduction);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight,
                            LossReduction reduction) {
  refuse_batch_mean("binary_cross_entropy", reduction);
  if (computes_in_float32({&input, &target})) {
    return autograd::in_float32(input, [&](const Tensor& wide) {
      return binary_cross_entropy(wide, widened(target), widened(weight), reduction);
    });
  }
  check_shapes("binary_cross_entropy", input, target);
  check_probabilities(input);
  return weighted("binary_cross_entropy", CrossEntropy{}, input, target, weight, reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight, LossReduction reduction,
                                        const Tensor& pos_weight) {
  constexpr const char* kName = "binary_cross_entropy_with_logits";
  refuse_batch_mean(kName, reduction);
  if (computes_in_float32({&input, &target})) {
    return autograd::in_float32(input, [&](const Tensor& wide) {
      return binary_cross_entropy_with_logits(wide, widened(target), widened(weight), reduction,
                                              widened(pos_weight));
    });
  }
  Tensor factor;
  if (pos_weight.defined()) {
    shapes::require_same_dtype(input, pos_weight, kName);
    require_spread(kName, "pos_weight", pos_weight, input);
    autograd::require_constant(pos_weight, kName, "pos_weight");
    factor = kernels::clone(kernels::expand(pos_weight, input.shape()));
  }
  return weighted(kName, CrossEntropyOfLogits{}, input, target, weight, reduction, factor);
}

Tensor kl_div(const Tensor& input, const Tensor& target, LossReduction reduction, bool log_target) {
  if (log_target) return pointwise("kl_div", KLDivergenceOfLogs{}, input, target, reduction);
  return pointwise("kl_div", KLDivergence{}, input, target, reduction);
}

}  // namespace hvd
