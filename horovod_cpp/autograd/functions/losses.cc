#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/precision.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/kernels/reduce/reduce.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::Saved;

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

void check_options(const char* name, const Tensor& input, const ClassLossOptions& options) {
  shapes::require_float(input, name);
  if (options.reduction == LossReduction::kBatchMean) {
    throw InvalidArgumentError(std::string(name) + ": batchmean is a reduction of kl_div alone");
  }
  if (!(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0)) {
    throw InvalidArgumentError(std::string(name) + ": label_smoothing " +
                               std::to_string(options.label_smoothing) + " is not within [0, 1]");
  }
  if (input.dim() == 0 || input.numel() == 0) {
    throw InvalidArgumentError(std::string(name) + ": the batch is empty: input " +
                               to_string(input.shape()));
  }
  const std::int64_t classes = input.dim() == 1 ? input.size(0) : input.size(1);
  if (!options.weight.defined()) return;
  shapes::require_same_dtype(input, options.weight, name);
  if (options.weight.shape() != Shape{classes}) {
    throw InvalidArgumentError(std::string(name) + ": input " + to_string(input.shape()) +
                               " and weight " + to_string(options.weight.shape()) +
                               ": expected one for each class");
  }
}

void check_targets(const char* name, const Tensor& input, const Tensor& targets,
                   std::int64_t classes, std::int64_t ignored) {
  Shape expected = input.shape();
  expected.erase(expected.begin() + (input.dim() == 1 ? 0 : 1));
  if (targets.dtype() != DType::kI64 || targets.shape() != expected) {
    throw InvalidArgumentError(std::string(name) + ": input " + to_string(input.shape()) +
                               " needs int64 targets " + to_string(expected) + ", got " +
                               std::string(name_of(targets.dtype())) + " " +
                               to_string(targets.shape()));
  }
  const Tensor flat = kernels::contiguous(targets);
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const std::int64_t given = flat.data<std::int64_t>()[i];
    if (given == ignored || (given >= 0 && given < classes)) continue;
    throw InvalidArgumentError(std::string(name) + ": target " + std::to_string(given) +
                               " at index " + std::to_string(i) + " for " +
                               std::to_string(classes) + " classes");
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
    throw InvalidArgumentError("cross_entropy: logits " + to_string(logits.shape()) +
                               " and probabilities " + to_string(targets.shape()) + " differ");
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
    return autograd::in_float32(log_probability, [&](const Tensor& wide) {
      return nll_loss(wide, targets, widened(options));
    });
  }
  check_options("nll_loss", log_probability, options);
  if (options.label_smoothing != 0.0) {
    throw InvalidArgumentError("nll_loss: label_smoothing is an option of cross_entropy alone");
  }
  return class_loss({"nll_loss", options, 1.0, 0.0}, log_probability, targets, false);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options) {
  if (autograd::is_half(logits)) {
    return autograd::in_float32(logits, [&](const Tensor& wide) {
      return cross_entropy(wide, autograd::widened(targets), widened(options));
    });
  }
  check_options("cross_entropy", logits, options);
  if (is_floating(targets.dtype())) return soft_cross_entropy(logits, targets, options);
  const auto classes = static_cast<double>(logits.dim() == 1 ? logits.size(0) : logits.size(1));
  return class_loss(
      {"cross_entropy", options, 1.0 - options.label_smoothing, options.label_smoothing / classes},
      logits, targets, true);
}

Tensor dropout(const Tensor& input, double p, bool training) {
  if (training) require_cpu("dropout", {&input});
  if (!(p >= 0.0 && p <= 1.0)) {
    throw InvalidArgumentError("dropout: probability " + std::to_string(p));
  }
  if (!training || p == 0.0) return input;
  if (p == 1.0) return mul(input, Tensor::zeros(input.shape(), input.dtype()));
  Tensor mask = bernoulli(input.shape(), 1.0 - p, input.dtype());
  kernels::scale(mask, 1.0 / (1.0 - p));
  return mul(input, mask);
}

}  // namespace hvd
