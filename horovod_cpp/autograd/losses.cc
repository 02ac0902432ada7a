#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/dispatch.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/kernels/elementwise.h"
#include "horovod_cpp/tensor/kernels/reduce.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

using autograd::edge_to;
using autograd::Saved;
using autograd::should_record;

void check_targets(const Tensor& logits, const Tensor& targets) {
  shapes::require_dim(logits, 2, "cross_entropy", "logits [n, classes]");
  shapes::require_float(logits, "cross_entropy");
  if (targets.dtype() != DType::kI64 || targets.shape() != Shape{logits.size(0)}) {
    throw InvalidArgumentError("cross_entropy: logits " + to_string(logits.shape()) +
                               " need int64 targets [" + std::to_string(logits.size(0)) +
                               "], got " + std::string(name_of(targets.dtype())) + " " +
                               to_string(targets.shape()));
  }
  if (logits.size(0) == 0) throw InvalidArgumentError("cross_entropy: the batch is empty");
  const std::int64_t* target = targets.data<std::int64_t>();
  for (std::int64_t i = 0; i < targets.numel(); ++i) {
    const std::int64_t given = target[i * targets.strides()[0]];
    if (given < 0 || given >= logits.size(1)) {
      throw InvalidArgumentError("cross_entropy: target " + std::to_string(given) + " at index " +
                                 std::to_string(i) + " for " + std::to_string(logits.size(1)) +
                                 " classes");
    }
  }
}

// -mean of log_probability[i, target[i]]
template <typename T>
double mean_loss(const Tensor& log_probability, const std::int64_t* target) {
  const T* row = log_probability.data<T>();
  const std::int64_t classes = log_probability.size(1);
  double total = 0.0;
  for (std::int64_t i = 0; i < log_probability.size(0); ++i) {
    total -= static_cast<double>(row[i * classes + target[i]]);
  }
  return total / static_cast<double>(log_probability.size(0));
}

// (softmax - one_hot(target)) * scale
Tensor loss_grad(const Tensor& log_probability, const Tensor& targets, double scale) {
  Tensor result = kernels::unary(kernels::Unary::kExp, log_probability, "cross_entropy");
  const std::int64_t* target = targets.data<std::int64_t>();
  dispatch_float(result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = result.data<T>();
    for (std::int64_t i = 0; i < result.size(0); ++i) out[i * result.size(1) + target[i]] -= T(1);
  });
  kernels::scale(result, scale);
  return result;
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  check_targets(logits, targets);
  const Tensor log_probability = kernels::log_softmax(kernels::contiguous(logits));
  const Tensor classes = kernels::contiguous(targets);
  const double loss = dispatch_float(logits.dtype(), [&](auto tag) {
    return mean_loss<typename decltype(tag)::type>(log_probability, classes.data<std::int64_t>());
  });
  Tensor result = Tensor::scalar(loss, logits.dtype());
  if (!should_record({&logits})) return result;
  return autograd::record(
      std::move(result), "cross_entropy", {edge_to(logits)},
      [log_probability, classes = Saved(classes)](const Tensor& gradient) {
        const double scale = gradient.item() / static_cast<double>(log_probability.size(0));
        return std::vector<Tensor>{loss_grad(log_probability, classes.get("cross_entropy"), scale)};
      });
}

Tensor mse_loss(const Tensor& input, const Tensor& target) {
  if (input.shape() != target.shape()) {
    throw InvalidArgumentError("mse_loss: shapes " + to_string(input.shape()) + " and " +
                               to_string(target.shape()) + " differ");
  }
  return mean(pow(sub(input, target), 2.0));
}

Tensor dropout(const Tensor& input, double p, bool training) {
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
