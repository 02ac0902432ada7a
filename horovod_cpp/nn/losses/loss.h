#pragma once

#include <optional>

#include "horovod_cpp/autograd/functions/losses.h"
#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// A loss compares two tensors; the functions' contracts are in autograd/functions/losses.h. As
// Modules losses have no forward of one tensor: that throws.
class Loss : public Module {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
  Tensor forward(const Tensor& input) override;
  Tensor operator()(const Tensor& input, const Tensor& target);
};

// PyTorch has these with a reduction alone.
class MSELoss : public Loss {
 public:
  explicit MSELoss(LossReduction reduction = LossReduction::kMean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  LossReduction reduction_;
};

class L1Loss : public Loss {
 public:
  explicit L1Loss(LossReduction reduction = LossReduction::kMean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  LossReduction reduction_;
};

class HuberLoss : public Loss {
 public:
  explicit HuberLoss(LossReduction reduction = LossReduction::kMean, double delta = 1.0)
      : reduction_(reduction), delta_(delta) {}
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  LossReduction reduction_;
  double delta_;
};

class SmoothL1Loss : public Loss {
 public:
  explicit SmoothL1Loss(LossReduction reduction = LossReduction::kMean, double beta = 1.0)
      : reduction_(reduction), beta_(beta) {}
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  LossReduction reduction_;
  double beta_;
};

// `weight` is a buffer, as PyTorch's.
class CrossEntropyLoss : public Loss {
 public:
  explicit CrossEntropyLoss(const ClassLossOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  ClassLossOptions options_;
};

class NLLLoss : public Loss {
 public:
  explicit NLLLoss(const ClassLossOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  ClassLossOptions options_;
};

// `weight` and `pos_weight` are buffers.
class BCELoss : public Loss {
 public:
  explicit BCELoss(const Tensor& weight = {}, LossReduction reduction = LossReduction::kMean);
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  Tensor weight_;
  LossReduction reduction_;
};

class BCEWithLogitsLoss : public Loss {
 public:
  explicit BCEWithLogitsLoss(const Tensor& weight = {},
                             LossReduction reduction = LossReduction::kMean,
                             const Tensor& pos_weight = {});
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  Tensor weight_;
  LossReduction reduction_;
  Tensor pos_weight_;
};

class KLDivLoss : public Loss {
 public:
  explicit KLDivLoss(LossReduction reduction = LossReduction::kMean, bool log_target = false)
      : reduction_(reduction), log_target_(log_target) {}
  using Loss::forward;
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  LossReduction reduction_;
  bool log_target_;
};

}  // namespace nn
}  // namespace hvd
