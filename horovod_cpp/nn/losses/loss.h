#pragma once

#include <functional>
#include <utility>

#include "horovod_cpp/autograd/functions/losses.h"
#include "horovod_cpp/nn/module.h"

namespace hvd::nn {

// A loss compares two tensors; the functions' contracts are in autograd/functions/losses.h. As
// Modules losses have no forward of one tensor: that throws.
class Loss : public Module {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
  Tensor forward(const Tensor& input) override;
  Tensor operator()(const Tensor& input, const Tensor& target);
};

// One whose forward is a function, bound to its options.
class FunctionLoss : public Loss {
 public:
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override {
    return function_(input, target);
  }

 protected:
  using Function = std::function<Tensor(const Tensor& input, const Tensor& target)>;
  explicit FunctionLoss(Function function) : function_(std::move(function)) {}

 private:
  Function function_;
};

// PyTorch has these with a reduction alone.
class MSELoss : public FunctionLoss {
 public:
  explicit MSELoss(LossReduction reduction = LossReduction::kMean);
};

class L1Loss : public FunctionLoss {
 public:
  explicit L1Loss(LossReduction reduction = LossReduction::kMean);
};

class HuberLoss : public FunctionLoss {
 public:
  explicit HuberLoss(LossReduction reduction = LossReduction::kMean, double delta = 1.0);
};

class SmoothL1Loss : public FunctionLoss {
 public:
  explicit SmoothL1Loss(LossReduction reduction = LossReduction::kMean, double beta = 1.0);
};

// `weight` is a buffer, as PyTorch's.
class CrossEntropyLoss : public FunctionLoss {
 public:
  explicit CrossEntropyLoss(const ClassLossOptions& options = {});
};

class NLLLoss : public FunctionLoss {
 public:
  explicit NLLLoss(const ClassLossOptions& options = {});
};

// `weight` and `pos_weight` are buffers.
class BCELoss : public FunctionLoss {
 public:
  explicit BCELoss(const Tensor& weight = {}, LossReduction reduction = LossReduction::kMean);
};

class BCEWithLogitsLoss : public FunctionLoss {
 public:
  explicit BCEWithLogitsLoss(const Tensor& weight = {},
                             LossReduction reduction = LossReduction::kMean,
                             const Tensor& pos_weight = {});
};

class KLDivLoss : public FunctionLoss {
 public:
  explicit KLDivLoss(LossReduction reduction = LossReduction::kMean, bool log_target = false);
};

}  // namespace hvd::nn
