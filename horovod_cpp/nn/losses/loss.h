#pragma once

#include <functional>
#include <type_traits>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/module.h"

namespace hvd::nn {

// A loss compares two tensors; the functions' contracts are in autograd/functions/functions.h. As
// Modules losses have no forward of one tensor: that throws.
class Loss : public Module {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
  Tensor forward(const Tensor& /*input*/) override {
    throw InvalidArgumentError("a loss takes an input and a target");
  }
  Tensor operator()(const Tensor& input, const Tensor& target) {
    return call(input, [&](const Tensor& given) { return forward(given, target); });
  }
};

// One whose forward is a loss of functions.h, bound to its options.
class FunctionLoss : public Loss {
 public:
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override {
    return function_(input, target);
  }

 protected:
  template <typename... Options>
  explicit FunctionLoss(Tensor (*function)(const Tensor&, const Tensor&, Options...),
                        const std::type_identity_t<std::decay_t<Options>>&... options)
      : function_([=](const Tensor& input, const Tensor& target) {
          return function(input, target, options...);
        }) {}
  // A defined one is a buffer.
  void register_weight(const char* name, const Tensor& weight) {
    if (weight.defined()) register_buffer(name, weight);
  }

 private:
  std::function<Tensor(const Tensor& input, const Tensor& target)> function_;
};

// PyTorch has these with a reduction alone.
class MSELoss : public FunctionLoss {
 public:
  explicit MSELoss(LossReduction reduction = LossReduction::kMean)
      : FunctionLoss(mse_loss, reduction) {}
};

class L1Loss : public FunctionLoss {
 public:
  explicit L1Loss(LossReduction reduction = LossReduction::kMean)
      : FunctionLoss(l1_loss, reduction) {}
};

class HuberLoss : public FunctionLoss {
 public:
  explicit HuberLoss(LossReduction reduction = LossReduction::kMean, double delta = 1.0)
      : FunctionLoss(huber_loss, reduction, delta) {}
};

class SmoothL1Loss : public FunctionLoss {
 public:
  explicit SmoothL1Loss(LossReduction reduction = LossReduction::kMean, double beta = 1.0)
      : FunctionLoss(smooth_l1_loss, reduction, beta) {}
};

class KLDivLoss : public FunctionLoss {
 public:
  explicit KLDivLoss(LossReduction reduction = LossReduction::kMean, bool log_target = false)
      : FunctionLoss(kl_div, reduction, log_target) {}
};

// `weight` is a buffer, as PyTorch's.
class CrossEntropyLoss : public FunctionLoss {
 public:
  explicit CrossEntropyLoss(const ClassLossOptions& options = {})
      : FunctionLoss(cross_entropy, options) {
    register_weight("weight", options.weight);
  }
};

class NLLLoss : public FunctionLoss {
 public:
  explicit NLLLoss(const ClassLossOptions& options = {}) : FunctionLoss(nll_loss, options) {
    register_weight("weight", options.weight);
  }
};

// `weight` and `pos_weight` are buffers.
class BCELoss : public FunctionLoss {
 public:
  explicit BCELoss(const Tensor& weight = {}, LossReduction reduction = LossReduction::kMean)
      : FunctionLoss(binary_cross_entropy, weight, reduction) {
    register_weight("weight", weight);
  }
};

class BCEWithLogitsLoss : public FunctionLoss {
 public:
  explicit BCEWithLogitsLoss(const Tensor& weight = {},
                             LossReduction reduction = LossReduction::kMean,
                             const Tensor& pos_weight = {})
      : FunctionLoss(binary_cross_entropy_with_logits, weight, reduction, pos_weight) {
    register_weight("weight", weight);
    register_weight("pos_weight", pos_weight);
  }
};

}  // namespace hvd::nn
