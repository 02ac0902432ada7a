#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/module.h"

namespace hvd::nn {

// Normalises over the last axes, which have the shape `normalized_shape`
// (layer_norm in autograd/functions/functions.h).
class LayerNorm : public Module {
 public:
  explicit LayerNorm(Shape normalized_shape, double eps = 1e-5, bool elementwise_affine = true);
  explicit LayerNorm(std::int64_t features, double eps = 1e-5, bool elementwise_affine = true)
      : LayerNorm(Shape{features}, eps, elementwise_affine) {}
  Tensor forward(const Tensor& input) override {
    return layer_norm(input, normalized_shape_, weight, bias, eps_);
  }
  std::string extra_repr() const override;

  Tensor weight;  // starts at 1; undefined unless elementwise_affine
  Tensor bias;    // starts at 0; undefined unless elementwise_affine

 private:
  Shape normalized_shape_;
  double eps_;
};

// Normalises each of num_groups groups of channels of each example of [n, num_channels, ...].
class GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t num_groups, std::int64_t num_channels, double eps = 1e-5,
            bool affine = true);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  Tensor weight;  // [num_channels], starts at 1; undefined unless affine
  Tensor bias;    // [num_channels], starts at 0; undefined unless affine

 private:
  std::int64_t num_groups_;
  std::int64_t num_channels_;
  double eps_;
};

struct BatchNormOptions {
  double eps = 1e-5;
  // How far a batch moves the running statistics; none: they are the mean over all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;               // has weight and bias
  bool track_running_stats = true;  // without, evaluation uses the batch's statistics too
};

class BatchNorm;

// What a layer does in training in the place of functional::batch_norm: normalises `input` by
// statistics of its own making and moves layer's running ones by `momentum`.
using BatchNormTraining =
    std::function<Tensor(const BatchNorm& layer, const Tensor& input, double momentum)>;

// What BatchNorm1d and 2d share: normalises each channel (Ioffe, Szegedy: "Batch normalization",
// ICML 2015). In training it uses the batch's statistics and moves the running ones; in evaluation
// it uses the running ones. What the options leave out is undefined.
class BatchNorm : public Module {
 public:
  // Takes any [n, num_features, ...]; the subclasses are particular about the number of axes.
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

  // From now on; undefined = functional::batch_norm. This is how SyncBatchNorm comes in.
  void set_training_function(BatchNormTraining function) { training_ = std::move(function); }
  const BatchNormOptions& options() const { return options_; }

  Tensor weight;               // [num_features], starts at 1
  Tensor bias;                 // [num_features], starts at 0
  Tensor running_mean;         // [num_features], starts at 0
  Tensor running_var;          // [num_features], starts at 1
  Tensor num_batches_tracked;  // int64 scalar

 protected:
  BatchNorm(const char* layer, std::int64_t num_features, const BatchNormOptions& options);
  // Throws InvalidArgumentError unless `input` has between `least` and `most` axes.
  void require_dims(const Tensor& input, std::int64_t least, std::int64_t most) const;

 private:
  std::int64_t num_features_;
  BatchNormOptions options_;
  BatchNormTraining training_;
};

// [n, num_features] or [n, num_features, length]
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t num_features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", num_features, options) {}
  Tensor forward(const Tensor& input) override {
    require_dims(input, 2, 3);
    return BatchNorm::forward(input);
  }
};

// [n, num_features, h, w]
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t num_features, double eps = 1e-5, double momentum = 0.1)
      : BatchNorm2d(num_features, BatchNormOptions{eps, momentum, true, true}) {}
  BatchNorm2d(std::int64_t num_features, const BatchNormOptions& options)
      : BatchNorm("BatchNorm2d", num_features, options) {}
  Tensor forward(const Tensor& input) override {
    require_dims(input, 4, 4);
    return BatchNorm::forward(input);
  }
};

}  // namespace hvd::nn
