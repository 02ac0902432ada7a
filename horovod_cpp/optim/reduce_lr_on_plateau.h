#pragma once

#include <cstdint>
#include <vector>

#include "horovod_cpp/optim/optimizer.h"

namespace hvd {
namespace optim {
namespace lr_scheduler {

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

}  // namespace lr_scheduler
}  // namespace optim
}  // namespace hvd
