#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "horovod_cpp/optim/optimizer.h"

// Learning rate schedules with PyTorch's names and numbers. A schedule is a function of the epoch:
// what it gives at an epoch depends on its arguments and on the groups' initial learning rates
// alone, so that a resumed run needs the epoch and nothing else, and schedules can be composed.
// "Epoch" is whatever step() counts: call it once per epoch or once per batch.
//
// Any Optimizer can be scheduled, a DistributedOptimizer too; it must outlive the schedule. All
// ranks must call step() alike.
namespace hvd::optim::lr_scheduler {

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;

  // The learning rate of a parameter group at an epoch; changes nothing.
  virtual double lr_at(std::int64_t epoch, std::size_t group) const = 0;
  // All options that the schedule sets for a group at an epoch: {"lr": lr_at()} for most.
  virtual Options options_at(std::int64_t epoch, std::size_t group) const {
    return {{"lr", lr_at(epoch, group)}};
  }

  // Goes on to the next epoch and sets the groups' options. A group that was added since starts
  // from the learning rate it has.
  void step();
  // Epochs stepped so far; the options in force are those of this epoch. 0 at first.
  std::int64_t last_epoch() const { return last_epoch_; }
  Optimizer& optimizer() const { return optimizer_; }
  bool is_of(const Optimizer& optimizer) const { return &optimizer_ == &optimizer; }
  // Each group's learning rate in force.
  std::vector<double> get_last_lr() const;

  // "last_epoch" (int64 scalar) and, of group g, "initial_lr.g" (float64 scalar). Functions and
  // arguments are not in it: make the schedule again with the same ones.
  NamedTensors state_dict() const;
  // Copies such a state in and sets the options of its epoch. Throws InvalidArgumentError naming
  // the entry that is missing, unexpected or of the wrong dtype or shape; nothing is changed then.
  void load_state_dict(const NamedTensors& state);

 protected:
  // Remembers each group's learning rate as its initial one, unless another schedule has.
  explicit LRScheduler(Optimizer& optimizer);
  // Sets the options of epoch 0; the last line of a subclass's constructor.
  void start() { apply(0); }
  double initial_lr(std::size_t group) const;
  std::size_t groups() const { return optimizer_.param_groups().size(); }
  const Options& group_options(std::size_t group) const {
    return optimizer_.param_groups().at(group).options;
  }

 private:
  void apply(std::int64_t epoch);

  Optimizer& optimizer_;
  std::int64_t last_epoch_ = 0;
};

// A schedule whose learning rate is a formula of a group's initial one and the epoch.
class FormulaLR : public LRScheduler {
 public:
  double lr_at(std::int64_t epoch, std::size_t group) const override {
    return formula_(initial_lr(group), epoch);
  }

 protected:
  using LRScheduler::LRScheduler;
  using Formula = std::function<double(double initial_lr, std::int64_t epoch)>;
  // The last line of a subclass's constructor.
  void start(Formula formula);

 private:
  Formula formula_;
};

// initial_lr * gamma^(epoch / step_size). Throws unless step_size >= 1.
class StepLR : public FormulaLR {
 public:
  StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);
};

// initial_lr * gamma^(number of milestones reached). Throws unless milestones ascend.
class MultiStepLR : public FormulaLR {
 public:
  MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma = 0.1);
};

// initial_lr * gamma^epoch.
class ExponentialLR : public FormulaLR {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);
};

// eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / t_max)) / 2, which rises again after
// t_max (Loshchilov, Hutter: "SGDR: stochastic gradient descent with warm restarts", ICLR 2017,
// without the restarts). Throws unless t_max >= 1.
class CosineAnnealingLR : public FormulaLR {
 public:
  CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min = 0);
};

// initial_lr times a factor that goes from start_factor to end_factor in a straight line over
// total_iters epochs and stays there. Throws unless 0 < start_factor <= 1, 0 <= end_factor <= 1 and
// total_iters >= 1.
class LinearLR : public FormulaLR {
 public:
  explicit LinearLR(Optimizer& optimizer, double start_factor = 1.0 / 3, double end_factor = 1,
                    std::int64_t total_iters = 5);
};

// initial_lr * lambda(epoch); one function for all groups or one each.
class LambdaLR : public LRScheduler {
 public:
  using Function = std::function<double(std::int64_t epoch)>;

  LambdaLR(Optimizer& optimizer, const Function& lambda);
  // Throws unless there are as many functions as groups.
  LambdaLR(Optimizer& optimizer, std::vector<Function> lambdas);
  double lr_at(std::int64_t epoch, std::size_t group) const override;

 private:
  std::vector<Function> lambdas_;
};

// One schedule after the other: the i-th begins, with its epoch 0, at milestones[i - 1]. All must
// be of this optimizer. Throws unless milestones ascend and are one fewer than schedules.
class SequentialLR : public LRScheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
               std::vector<std::int64_t> milestones);
  double lr_at(std::int64_t epoch, std::size_t group) const override;
  Options options_at(std::int64_t epoch, std::size_t group) const override;

 private:
  struct Place {
    const LRScheduler* scheduler;
    std::int64_t epoch;  // of that one
  };
  Place at(std::int64_t epoch) const;

  std::vector<std::shared_ptr<LRScheduler>> schedulers_;
  std::vector<std::int64_t> milestones_;
};

struct LearningRateWarmupOptions {
  double scale = 1;          // times more samples a step than `lr` was chosen for: hvd::size()
  double warmup_epochs = 5;  // passes over the data until lr * scale is reached; 0 = at once
  std::int64_t steps_per_epoch = 1;  // step() calls per pass
};

// The linear scaling rule with gradual warm-up (Goyal et al.: "Accurate, large minibatch SGD:
// training ImageNet in 1 hour", 2017), as Horovod's LearningRateWarmup: the initial learning rate
// times a factor that goes from 1 to `scale` in a straight line, and stays there. The factor is
// that of the end of a step, (epoch + 1) / steps_per_epoch passes. `schedule`, if there is one,
// counts from the same epoch 0 and is multiplied by the factor. The momentum needs no correction:
// this library's SGD has the learning rate outside the buffer.
class LearningRateWarmup : public LRScheduler {
 public:
  // Throws unless scale > 0, warmup_epochs >= 0 and steps_per_epoch >= 1.
  LearningRateWarmup(Optimizer& optimizer, const LearningRateWarmupOptions& options,
                     std::shared_ptr<LRScheduler> schedule = nullptr);
  double lr_at(std::int64_t epoch, std::size_t group) const override;
  Options options_at(std::int64_t epoch, std::size_t group) const override;

 private:
  double factor_at(std::int64_t epoch) const;

  LearningRateWarmupOptions options_;
  std::shared_ptr<LRScheduler> schedule_;
};

enum class AnnealStrategy { kCos, kLinear };

struct OneCycleLROptions {
  std::vector<double> max_lr = {};  // one for all groups or one each
  std::int64_t total_steps = 0;     // calls of step(), the first epoch included; at least 2
  double pct_start = 0.3;           // share of the steps that raises the learning rate
  AnnealStrategy anneal_strategy = AnnealStrategy::kCos;
  // Lowers the option "momentum", or "beta1" where there is none, while the learning rate rises.
  bool cycle_momentum = true;
  double base_momentum = 0.85;
  double max_momentum = 0.95;
  double div_factor = 25;         // the first learning rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last one is the first one / final_div_factor
  bool three_phase = false;       // down to the first one as long as up, and only then further
};

// The one-cycle policy (Smith, Topin: "Super-convergence: very fast training of neural networks
// using large learning rates", 2017) as PyTorch defines it. It does not look at the groups' initial
// learning rates.
class OneCycleLR : public LRScheduler {
 public:
  // Throws InvalidArgumentError on options out of range, a wrong number of max_lr, or
  // cycle_momentum with an optimizer that has neither "momentum" nor "beta1".
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);
  // The loop's last step() leads to epoch total_steps, which is like the one before. Both throw
  // InvalidArgumentError beyond it.
  double lr_at(std::int64_t epoch, std::size_t group) const override;
  Options options_at(std::int64_t epoch, std::size_t group) const override;

 private:
  // Where an epoch lies: between the values number `from` and `from + 1`, `share` of the way.
  struct Place {
    std::size_t from;
    double share;
  };
  Place at(std::int64_t epoch) const;
  double between(double a, double b, double share) const;
  void check_options() const;

  OneCycleLROptions options_;
  std::vector<double> ends_;  // the last epoch of each phase; may be fractional
};

enum class PlateauMode { kMin, kMax };    // is a smaller metric better, or a larger one
enum class ThresholdMode { kRel, kAbs };  // better by a share of the best, or by an amount

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::kMin;
  double factor = 0.1;         // in [0, 1)
  std::int64_t patience = 10;  // epochs without improvement that are let pass
  double threshold = 1e-4;     // what counts as an improvement
  ThresholdMode threshold_mode = ThresholdMode::kRel;
  std::int64_t cooldown = 0;         // epochs after a reduction that are not looked at
  std::vector<double> min_lr = {0};  // one for all groups or one each
  double eps = 1e-8;                 // smaller reductions are left out
};

// Multiplies the learning rates by `factor` when a metric has stopped improving, as PyTorch does.
// NaN is no improvement. Over several ranks give step() a metric that is equal on all of them (the
// average), or their learning rates part. The optimizer must outlive it.
class ReduceLROnPlateau {
 public:
  // Throws InvalidArgumentError on options out of range or a wrong number of min_lr.
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});

  // The metric of the epoch that ends.
  void step(double metric);
  std::int64_t last_epoch() const { return state_.last_epoch; }
  // Each group's learning rate in force.
  std::vector<double> get_last_lr() const;

  // "best" and, of group g, "lr.g" (float64 scalars); "num_bad_epochs", "cooldown_counter" and
  // "last_epoch" (int64 scalars).
  NamedTensors state_dict() const;
  // Copies such a state in and sets the learning rates. Throws InvalidArgumentError naming the
  // entry that is missing, unexpected or of the wrong dtype or shape; nothing is changed then.
  void load_state_dict(const NamedTensors& state);

 private:
  struct State {
    double best;
    std::int64_t num_bad_epochs = 0;
    std::int64_t cooldown_counter = 0;
    std::int64_t last_epoch = 0;
  };

  bool is_better(double metric) const;
  void reduce();

  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  State state_;
};

}  // namespace hvd::optim::lr_scheduler
