#include "horovod_cpp/distributed/sync_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/autograd/recording.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/tensor/kernels/images/images.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace nn {
namespace {

// Statistics of the joined batch, and how many values per channel they come from.
struct JoinedMoments {
  kernels::Moments moments;
  double count = 0;
};

void sum_over_ranks(const Tensor& sums, const std::string& name, const ProcessSet& set) {
  allreduce_(sums, {.op = ReduceOp::kSum, .name = name, .process_set = set});
}

JoinedMoments joined_moments(const Tensor& images, const std::string& name, const ProcessSet& set) {
  const std::int64_t channels = images.size(1);
  const auto size = static_cast<std::size_t>(channels);
  Tensor sums = Tensor::zeros({2 * channels + 1}, DType::kF64);
  double* sum = sums.data<double>();
  double* square = sum + channels;
  JoinedMoments joined = {
      {Tensor::zeros({channels}, DType::kF64), Tensor::zeros({channels}, DType::kF64)}};
  if (images.numel() > 0) {
    const std::int64_t rows_here = images.numel() / channels;
    const auto rows = static_cast<double>(rows_here);
    const kernels::Moments own = kernels::channel_moments(images);
    for (std::size_t c = 0; c < size; ++c) {
      const double mean = own.mean.data<double>()[c];
      sum[c] = mean * rows;
      square[c] = (own.variance.data<double>()[c] + mean * mean) * rows;
    }
    square[channels] = rows;
  }
  sum_over_ranks(sums, name, set);
  joined.count = square[channels];
  if (joined.count < 2) {
    throw InvalidArgumentError("input " + to_string(images.shape()) + ": all " +
                               std::to_string(set.size()) +
                               " ranks together have fewer than two values per channel");
  }
  for (std::size_t c = 0; c < size; ++c) {
    const double mean = sum[c] / joined.count;
    joined.moments.mean.data<double>()[c] = mean;
    joined.moments.variance.data<double>()[c] =  // in this order a NaN stays
        std::max(square[c] / joined.count - mean * mean, 0.0);
  }
  return joined;
}

void move_running(const BatchNorm& layer, const JoinedMoments& joined, double momentum) {
  if (!layer.running_mean.defined()) return;
  const Tensor mean = autograd::substitute_for(layer.running_mean);
  const Tensor variance = autograd::substitute_for(layer.running_var);
  refuse_expanded(mean, "SyncBatchNorm: running statistics");
  refuse_expanded(variance, "SyncBatchNorm: running statistics");
  kernels::move_running(mean, variance, joined.moments, joined.count, momentum);
}

Tensor parameter_or(const Tensor& given, double value, const Tensor& input) {
  if (!given.defined()) return Tensor::full({input.size(1)}, value, input.dtype());
  Tensor wide = autograd::widened(given);
  shapes::require_same_dtype(input, wide, "SyncBatchNorm");
  return wide;
}

// images [n, c, h, w]
Tensor normalized(const BatchNorm& layer, const Tensor& images, double momentum,
                  const ProcessSet& set) {
  const std::string path = layer.path();
  const std::string name = path.empty() ? "sync_batch_norm" : "sync_batch_norm." + path;
  const double eps = layer.options().eps;
  const Tensor weight = parameter_or(layer.weight, 1, images);
  const Tensor bias = parameter_or(layer.bias, 0, images);
  const JoinedMoments joined = joined_moments(images, name + ".forward", set);
  move_running(layer, joined, momentum);
  Tensor result = kernels::batch_norm(images, joined.moments, weight, bias, eps);
  if (!autograd::should_record({&images, &weight, &bias})) return result;
  const bool wants_input = autograd::requires_grad(images);
  return autograd::record(
      std::move(result), "sync_batch_norm",
      {autograd::edge_to(images), autograd::edge_to(weight), autograd::edge_to(bias)},
      [x = autograd::Saved(images), w = autograd::Saved(weight), joined, eps, wants_input, name,
       set](const Tensor& gradient) {
        const Tensor& input = x.get("sync_batch_norm");
        const Tensor sums = kernels::batch_norm_sums(gradient, input, joined.moments);
        // Own sums, before those of all ranks take their place.
        const Tensor grads = kernels::to(sums.select(0, 0), input.dtype());
        Tensor dots = kernels::clone(sums.select(0, 1));
        for (std::int64_t c = 0; c < dots.numel(); ++c) {
          dots.data<double>()[c] /= std::sqrt(joined.moments.variance.data<double>()[c] + eps);
        }
        std::vector<Tensor> parts = {{}, kernels::to(dots, input.dtype()), kernels::clone(grads)};
        if (!wants_input) return parts;
        sum_over_ranks(sums, name + ".backward", set);
        parts[0] = kernels::batch_norm_input_grad(
            gradient, input, joined.moments, w.get("sync_batch_norm"), eps, sums, joined.count);
        return parts;
      });
}

Tensor alone(const BatchNorm& layer, const Tensor& input, double momentum) {
  using autograd::substitute_for;
  return functional::batch_norm(input, substitute_for(layer.running_mean),
                                substitute_for(layer.running_var), layer.weight, layer.bias,
                                /*training=*/true, momentum, layer.options().eps);
}

// Half types are normalised in float32 and rounded; so are their parameters.
Tensor joined(const BatchNorm& layer, const Tensor& input, double momentum, const ProcessSet& set) {
  if (autograd::is_half(input)) {
    return autograd::cast(joined(layer, autograd::widened(input), momentum, set), input.dtype());
  }
  const std::int64_t channels = input.size(1);
  shapes::require_float(input, "SyncBatchNorm");
  autograd::require_constant(layer.running_mean, "SyncBatchNorm", "running_mean");
  autograd::require_constant(layer.running_var, "SyncBatchNorm", "running_var");
  if (input.dim() == 4) return normalized(layer, input, momentum, set);
  Shape pixels = input.shape();
  pixels[0] = pixels[1] = 1;
  return normalized(layer, input.reshape({input.size(0), channels, numel_of(pixels), 1}), momentum,
                    set)
      .reshape(input.shape());
}

BatchNormTraining training_over(const ProcessSet& set) {
  return [set](const BatchNorm& layer, const Tensor& input, double momentum) {
    if (!set.included() || set.size() == 1) return alone(layer, input, momentum);
    return joined(layer, input, momentum, set);
  };
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(std::int64_t num_features, const BatchNormOptions& options,
                             ProcessSet process_set)
    : BatchNorm("SyncBatchNorm", num_features, options) {
  set_training_function(training_over(process_set));
}

Module& SyncBatchNorm::convert_sync_batchnorm(Module& module, const ProcessSet& process_set) {
  module.apply([&](Module& each) {
    if (auto* layer = dynamic_cast<BatchNorm*>(&each)) {
      layer->set_training_function(training_over(process_set));
    }
  });
  return module;
}

}  // namespace nn
}  // namespace hvd
