// The losses of classes, then those of elements.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::computes_in_float32;
using autograd::edge_to;
using autograd::rounded_back;
using autograd::Saved;
using autograd::widened;

// How the loss of one example follows from its log-probabilities: those of the target count `hit`,
// those of every class `each`, both times the class's weight.
struct Rule {
  const char* name;
  ClassLossOptions options;
  double hit;
  double each;
};

// Examples as rows.
struct Rows {
  Tensor values;   // [rows, classes], contiguous
  Tensor targets;  // int64 [rows], contiguous
  Tensor weights;  // [classes], contiguous
};

ClassLossOptions widened(ClassLossOptions options) {
  options.weight = autograd::widened(options.weight);
  return options;
}

void refuse_batch_mean(const char* name, LossReduction reduction) {
  if (reduction != LossReduction::kBatchMean) return;
  throw InvalidArgumentError(name, ": batchmean is a reduction of kl_div alone");
}

void check_options(const char* name, const Tensor& input, const ClassLossOptions& options) {
  shapes::require_float(input, name);
  refuse_batch_mean(name, options.reduction);
  if (!(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0)) {
    throw InvalidArgumentError(name, ": label_smoothing ", options.label_smoothing,
                               " is not within [0, 1]");
  }
  if (input.dim() == 0 || input.numel() == 0) {
    throw InvalidArgumentError(name, ": the batch is empty: input ", input.shape());
  }
  const std::int64_t classes = input.dim() == 1 ? input.size(0) : input.size(1);
  if (!options.weight.defined()) return;
  shapes::require_same_dtype(input, options.weight, name);
  if (options.weight.shape() != Shape{classes}) {
    throw InvalidArgumentError(name, ": input ", input.shape(), " and weight ",
                               options.weight.shape(), ": expected one for each class");
  }
}

void check_targets(const char* name, const Tensor& input, const Tensor& targets,
                   std::int64_t classes, std::int64_t ignored) {
  Shape expected = input.shape();
  expected.erase(expected.begin() + (input.dim() == 1 ? 0 : 1));
  if (targets.dtype() != DType::kI64 || targets.shape() != expected) {
    throw InvalidArgumentError(name, ": input ", input.shape(), " needs int64 targets ", expected,
                               ", got ", targets.dtype(), " ", targets.shape());
  }
  const Tensor flat = kernels::contiguous(targets);
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const std::int64_t given = flat.data<std::int64_t>()[i];
    if (given == ignored || (given >= 0 && given < classes)) continue;
    throw InvalidArgumentError(name, ": target ", given, " at index ", i, " for ", classes,
                               " classes");
  }
}

// [n, c, ...] -> [n * ..., c]
Tensor classes_last(const Tensor& input) {
  if (input.dim() == 1) return input.reshape({1, -1}).contiguous();
  std::vector<std::int64_t> axes = {0};
  for (std::int64_t axis = 2; axis < input.dim(); ++axis) axes.push_back(axis);
  axes.push_back(1);
  return input.permute(axes).reshape({-1, input.size(1)}).contiguous();
}

// What divides the summed loss: the examples' weights, or 1.
template <typename T>
double divisor(const Rule& rule, const Rows& rows) {
  if (rule.options.reduction != LossReduction::kMean) return 1.0;
  double total = 0.0;
  for (std::int64_t i = 0; i < rows.targets.numel(); ++i) {
    const std::int64_t target = rows.targets.data<std::int64_t>()[i];
    if (target == rule.options.ignore_index) continue;
    total += static_cast<double>(rows.weights.data<T>()[target]);
  }
  return total;
}

// The loss of each row.
template <typename T>
Tensor row_losses(const Rule& rule, const Rows& rows) {
  Tensor losses = Tensor::zeros({rows.values.size(0)}, rows.values.dtype());
  const std::int64_t classes = rows.values.size(1);
  const T* value = rows.values.data<T>();
  const T* weight = rows.weights.data<T>();
  for (std::int64_t i = 0; i < losses.numel(); ++i, value += classes) {
    const std::int64_t target = rows.targets.data<std::int64_t>()[i];
    if (target == rule.options.ignore_index) continue;
    double loss = -rule.hit * static_cast<double>(weight[target] * value[target]);
    for (std::int64_t c = 0; rule.each != 0.0 && c < classes; ++c) {
      loss -= rule.each * static_cast<double>(weight[c] * value[c]);
    }
    losses.data<T>()[i] = static_cast<T>(loss);
  }
  return losses;
}

// The gradient of the log-probabilities, given that of each row's loss.
template <typename T>
Tensor row_gradients(const Rule& rule, const Rows& rows, const std::vector<double>& scales) {
  Tensor result = Tensor::zeros(rows.values.shape(), rows.values.dtype());
  const std::int64_t classes = rows.values.size(1);
  const T* weight = rows.weights.data<T>();
  T* out = result.data<T>();
  for (std::int64_t i = 0; i < rows.targets.numel(); ++i, out += classes) {
    const std::int64_t target = rows.targets.data<std::int64_t>()[i];
    if (target == rule.options.ignore_index) continue;
    const double scale = scales[static_cast<std::size_t>(i)];
    for (std::int64_t c = 0; rule.each != 0.0 && c < classes; ++c) {
      out[c] = static_cast<T>(-scale * rule.each) * weight[c];
    }
    out[target] -= static_cast<T>(scale * rule.hit) * weight[target];
  }
  return result;
}

Tensor reduced(const Tensor& losses, double divided_by, LossReduction reduction,
               const Shape& shape) {
  if (reduction == LossReduction::kNone) return kernels::clone(losses.reshape(shape));
  double total = 0.0;
  for (const double loss : losses.to_vector()) total += loss;
  return Tensor::scalar(total / divided_by, losses.dtype());
}

// The gradient of each row's loss, given that of the reduced one.
std::vector<double> scales_of(const Tensor& gradient, double divided_by, std::int64_t rows) {
  std::vector<double> scales = gradient.to_vector();
  if (gradient.dim() == 0) scales.assign(static_cast<std::size_t>(rows), scales[0] / divided_by);
  return scales;
}

// The gradient of the log-probabilities (then, with `softmax`, of the logits) made of recorded
// functions; `input` leads to the logits.
template <typename T>
Tensor recorded_gradient(const Rule& rule, const Rows& rows, const autograd::Edge& input,
                         bool softmax, double divided_by, const Tensor& gradient) {
  const std::int64_t count = rows.targets.numel();
  const Tensor slopes =
      row_gradients<T>(rule, rows, std::vector<double>(static_cast<std::size_t>(count), 1.0));
  const bool each = rule.options.reduction == LossReduction::kNone;
  const Tensor result =
      slopes * (each ? gradient.reshape({count, 1}) : gradient * (1.0 / divided_by));
  if (!softmax) return result;
  const auto through_softmax = [](const Tensor& g, const Tensor& y) {
    return g - exp(y) * sum(g, {1}, true);
  };
  return through_softmax(result,
                         autograd::function_of(input, rows.values, rule.name, through_softmax));
}

// The loss of log-probabilities; `softmax`: `input` are logits.
Tensor class_loss(const Rule& rule, const Tensor& input, const Tensor& targets, bool softmax) {
  require_cpu(rule.name, {&input, &targets});
  const Tensor rows_of_input = classes_last(input);
  const std::int64_t classes = rows_of_input.size(1);
  check_targets(rule.name, input, targets, classes, rule.options.ignore_index);
  const Tensor& weight = rule.options.weight;
  autograd::require_constant(weight, rule.name, "weight");
  const Rows rows = {
      softmax ? kernels::log_softmax(rows_of_input) : rows_of_input.detach(),
      kernels::clone(kernels::contiguous(targets)).reshape({-1}),
      weight.defined() ? kernels::clone(weight) : Tensor::ones({classes}, input.dtype())};
  return dispatch_float(input.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const double divided_by = divisor<T>(rule, rows);
    Tensor result =
        reduced(row_losses<T>(rule, rows), divided_by, rule.options.reduction, targets.shape());
    return autograd::mapped(
        rows_of_input, std::move(result), rule.name,
        [=, values = Saved(rows.values), edge = edge_to(rows_of_input)](const Tensor& gradient) {
          values.get(rule.name);
          if (grad_enabled()) {
            return recorded_gradient<T>(rule, rows, edge, softmax, divided_by, gradient);
          }
          const auto scales = scales_of(gradient, divided_by, rows.targets.numel());
          const Tensor result_gradient = row_gradients<T>(rule, rows, scales);
          return softmax ? kernels::log_softmax_grad(result_gradient, rows.values)
                         : result_gradient;
        });
  });
}

// Targets that are probabilities: the sum of -target * weight * log_softmax(logits).
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets,
                          const ClassLossOptions& options) {
  require_cpu("cross_entropy", {&logits, &targets});
  if (targets.shape() != logits.shape()) {
    throw InvalidArgumentError("cross_entropy: logits ", logits.shape(), " and probabilities ",
                               targets.shape(), " differ");
  }
  const Tensor rows = classes_last(logits);
  const double smoothing = options.label_smoothing;
  Tensor wanted =
      classes_last(targets) * (1.0 - smoothing) + smoothing / static_cast<double>(rows.size(1));
  if (options.weight.defined()) wanted = wanted * options.weight;
  const Tensor losses = sum(wanted * log_softmax(rows, 1), {1}) * -1.0;
  if (options.reduction == LossReduction::kMean) return mean(losses);
  if (options.reduction == LossReduction::kSum) return sum(losses);
  Shape shape = logits.shape();
  shape.erase(shape.begin() + (logits.dim() == 1 ? 0 : 1));
  return losses.reshape(shape);
}

}  // namespace

Tensor nll_loss(const Tensor& log_probability, const Tensor& targets,
                const ClassLossOptions& options) {
  if (autograd::is_half(log_probability)) {
    return rounded_back(nll_loss(autograd::widened(log_probability), targets, widened(options)),
                        log_probability);
  }
  check_options("nll_loss", log_probability, options);
  if (options.label_smoothing != 0.0) {
    throw InvalidArgumentError("nll_loss: label_smoothing is an option of cross_entropy alone");
  }
  return class_loss({"nll_loss", options, 1.0, 0.0}, log_probability, targets, false);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options) {
  if (autograd::is_half(logits)) {
    return rounded_back(
        cross_entropy(autograd::widened(logits), autograd::widened(targets), widened(options)),
        logits);
  }
  check_options("cross_entropy", logits, options);
  if (is_floating(targets.dtype())) return soft_cross_entropy(logits, targets, options);
  const auto classes = static_cast<double>(logits.dim() == 1 ? logits.size(0) : logits.size(1));
  return class_loss(
      {"cross_entropy", options, 1.0 - options.label_smoothing, options.label_smoothing / classes},
      logits, targets, true);
}

namespace {

// The functions that losses are made of, for numbers as hvd has them for tensors.
using std::abs;
using std::exp;
using std::log;
using std::log1p;
double neg(double x) {
  return -x;
}
double sign(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : x;  // a NaN stays
}
double clamp(double x, double least, double most = std::numeric_limits<double>::infinity()) {
  return std::clamp(x, least, most);
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
// The part of x above 0, and that below, which share the slope at 0.
double positive(double x) {
  return std::max(x, 0.0);
}
double negative(double x) {
  return std::min(x, 0.0);
}
Tensor positive(const Tensor& x) {
  return maximum(x, Tensor::zeros({}, x.dtype()));
}
Tensor negative(const Tensor& x) {
  return minimum(x, Tensor::zeros({}, x.dtype()));
}

// A loss is a type with functions of one input, its target and a factor (1 except for pos_weight):
// the loss of numbers, and its slopes against input and target, of numbers or, for those who
// differentiate them, of tensors as recorded functions.

// Losses of the difference d = input - target: value(d) and slope(d).
template <typename Loss>
struct OfDifference : Loss {
  double loss(double x, double t, double) const { return this->value(x - t); }
  auto input_slope(const auto& x, const auto& t, const auto&) const { return this->slope(x - t); }
  auto target_slope(const auto& x, const auto& t, const auto&) const {
    return neg(this->slope(x - t));
  }
};

struct Squared {
  double value(double d) const { return d * d; }
  auto slope(const auto& d) const { return d * 2.0; }
};

struct Absolute {
  double value(double d) const { return abs(d); }
  auto slope(const auto& d) const { return sign(d); }
};

// Quadratic within +-delta, linear beyond.
struct Huber {
  double delta;
  double value(double d) const {
    const double size = abs(d);
    return size < delta ? d * d / 2 : delta * (size - delta / 2);
  }
  auto slope(const auto& d) const { return clamp(d, -delta, delta); }
};

struct SmoothL1 {
  double beta;
  double value(double d) const {
    const double size = abs(d);
    return size < beta ? d * d / (2 * beta) : size - beta / 2;
  }
  auto slope(const auto& d) const { return beta == 0 ? sign(d) : clamp(d / beta, -1.0, 1.0); }
};

struct CrossEntropy {
  double loss(double x, double t, double) const {
    return -t * clamp(log(x), -100.0) - (1 - t) * clamp(log1p(-x), -100.0);
  }
  auto input_slope(const auto& x, const auto& t, const auto&) const {
    return (x - t) / clamp(x * (1.0 - x), 1e-12);
  }
  auto target_slope(const auto& x, const auto&, const auto&) const {
    return clamp(log1p(neg(x)), -100.0) - clamp(log(x), -100.0);
  }
};

struct CrossEntropyOfLogits {
  // log(1 + e^-|x|) is log(1 + e^-x) without its -x where x < 0.
  double loss(double x, double t, double factor) const {
    return (1 - t) * x + (1 + (factor - 1) * t) * (log1p(exp(-abs(x))) - negative(x));
  }
  auto input_slope(const auto& x, const auto& t, const auto& factor) const {
    return (1.0 - t) - ((factor - 1.0) * t + 1.0) * sigmoid(neg(x));
  }
  // (factor - 1) * log(1 + e^-x) - x, in an order that subtracts no infinity from another
  auto target_slope(const auto& x, const auto&, const auto& factor) const {
    return (factor - 1.0) * log1p(exp(neg(abs(x)))) - positive(x) - factor * negative(x);
  }
};

struct KLDivergence {
  double loss(double x, double t, double) const { return (t == 0 ? 0 : t * log(t)) - t * x; }
  auto input_slope(const auto&, const auto& t, const auto&) const { return neg(t); }
  auto target_slope(const auto& x, const auto& t, const auto&) const { return log(t) + 1.0 - x; }
};

struct KLDivergenceOfLogs {
  double loss(double x, double t, double) const { return exp(t) * (t - x); }
  auto input_slope(const auto&, const auto& t, const auto&) const { return neg(exp(t)); }
  auto target_slope(const auto& x, const auto& t, const auto&) const {
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
  throw InvalidArgumentError(name, ": shapes ", input.shape(), " and ", target.shape(), " differ");
}

template <typename Loss>
Tensor pointwise(const char* name, const Loss& loss, const Tensor& input, const Tensor& target,
                 LossReduction reduction, const Tensor& factor = {}) {
  require_cpu(name, {&input, &target});
  if (computes_in_float32({&input, &target})) {
    return rounded_back(
        pointwise(name, loss, widened(input), widened(target), reduction, widened(factor)), input);
  }
  check_shapes(name, input, target);
  const Tensor x = input.contiguous();
  const Tensor t = target.contiguous();
  Tensor result = forward(loss, x, t, factor, reduction);
  if (!autograd::should_record({&x, &t})) return result;
  // The gradient of either side, whose slope takes numbers, or tensors where it is recorded.
  const auto gradient_by = [=, x_saved = Saved(x), t_saved = Saved(t),
                            divided_by = divisor(x, reduction)](auto slope) {
    return [=](const Tensor& gradient) {
      const Tensor a = x_saved.get(name);
      const Tensor b = t_saved.get(name);
      if (!grad_enabled()) return backward(gradient, divided_by, a, b, factor, slope);
      const Tensor f = factor.defined() ? factor : Tensor::ones({}, a.dtype());
      return gradient * (1.0 / divided_by) * slope(a, b, f);
    };
  };
  return autograd::recorded(
      std::move(result), name, {&x, &t},
      gradient_by([loss](const auto&... values) { return loss.input_slope(values...); }),
      gradient_by([loss](const auto&... values) { return loss.target_slope(values...); }));
}

void check_at_least(const char* name, const char* what, double value, double least) {
  if (value >= least) return;
  throw InvalidArgumentError(name, ": ", what, " ", value, " is too small");
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
    throw InvalidArgumentError("binary_cross_entropy: input ", value,
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
    return rounded_back(
        binary_cross_entropy(widened(input), widened(target), widened(weight), reduction), input);
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
    return rounded_back(
        binary_cross_entropy_with_logits(widened(input), widened(target), widened(weight),
                                         reduction, widened(pos_weight)),
        input);
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
