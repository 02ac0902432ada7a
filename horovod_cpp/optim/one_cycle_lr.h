#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/optim/lr_scheduler.h"

namespace hvd {
namespace optim {
namespace lr_scheduler {

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
  void check() const;

  OneCycleLROptions options_;
  std::vector<double> ends_;  // the last epoch of each phase; may be fractional
};

}  // namespace lr_scheduler
}  // namespace optim
}  // namespace hvd
