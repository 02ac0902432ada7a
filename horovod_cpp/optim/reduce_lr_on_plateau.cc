#include "horovod_cpp/optim/reduce_lr_on_plateau.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/optim/state_entries.h"

namespace hvd {
namespace optim {
namespace lr_scheduler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require_plateau(bool condition, const char* name, double value, const char* expected) {
  if (condition) return;
  throw InvalidArgumentError(std::string("ReduceLROnPlateau: ") + name + " " +
                             std::to_string(value) + ", expected " + expected);
}

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : optimizer_(optimizer),
      options_(std::move(options)),
      state_{options_.mode == PlateauMode::kMin ? kInfinity : -kInfinity} {
  require_plateau(options_.factor >= 0 && options_.factor < 1, "factor", options_.factor,
                  "0 <= factor < 1");
  require_plateau(options_.patience >= 0, "patience", static_cast<double>(options_.patience),
                  "at least 0");
  require_plateau(options_.cooldown >= 0, "cooldown", static_cast<double>(options_.cooldown),
                  "at least 0");
  // A minimum of 0 * infinity would never be undercut.
  const bool relative = options_.threshold_mode == ThresholdMode::kRel;
  require_plateau(options_.threshold >= 0 && !(relative && options_.threshold >= 1), "threshold",
                  options_.threshold, "0 <= threshold, and threshold < 1 where it is relative");
  require_plateau(options_.eps >= 0, "eps", options_.eps, "at least 0");
  for (const double lr : options_.min_lr) require_plateau(lr >= 0, "min_lr", lr, "at least 0");
  const std::size_t groups = optimizer.param_groups().size();
  require_plateau(options_.min_lr.size() == 1 || options_.min_lr.size() == groups,
                  "min_lr: a list of", static_cast<double>(options_.min_lr.size()),
                  "one value, or one for each group");
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const double threshold = options_.threshold;
  const bool relative = options_.threshold_mode == ThresholdMode::kRel;
  if (options_.mode == PlateauMode::kMin) {
    return metric < (relative ? state_.best * (1 - threshold) : state_.best - threshold);
  }
  return metric > (relative ? state_.best * (1 + threshold) : state_.best + threshold);
}

void ReduceLROnPlateau::step(double metric) {
  ++state_.last_epoch;
  if (is_better(metric)) {
    state_.best = metric;
    state_.num_bad_epochs = 0;
  } else {
    ++state_.num_bad_epochs;
  }
  if (state_.cooldown_counter > 0) {
    --state_.cooldown_counter;
    state_.num_bad_epochs = 0;
  }
  if (state_.num_bad_epochs <= options_.patience) return;
  reduce();
  state_.cooldown_counter = options_.cooldown;
  state_.num_bad_epochs = 0;
}

void ReduceLROnPlateau::reduce() {
  auto& groups = optimizer_.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const double floor = options_.min_lr.size() == 1 ? options_.min_lr[0] : options_.min_lr.at(g);
    double& lr = groups[g].options.at("lr");
    const double reduced = std::max(lr * options_.factor, floor);
    if (lr - reduced > options_.eps) lr = reduced;
  }
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
  std::vector<double> rates;
  for (const ParamGroup& group : optimizer_.param_groups()) {
    rates.push_back(group.options.at("lr"));
  }
  return rates;
}

NamedTensors ReduceLROnPlateau::state_dict() const {
  NamedTensors state = {{"best", Tensor::scalar(state_.best, DType::kF64)},
                        {"num_bad_epochs", count_entry(state_.num_bad_epochs)},
                        {"cooldown_counter", count_entry(state_.cooldown_counter)},
                        {"last_epoch", count_entry(state_.last_epoch)}};
  const std::vector<double> rates = get_last_lr();
  for (std::size_t g = 0; g < rates.size(); ++g) {
    state.emplace_back("lr." + std::to_string(g), Tensor::scalar(rates[g], DType::kF64));
  }
  return state;
}

void ReduceLROnPlateau::load_state_dict(const NamedTensors& state) {
  StateEntries entries("schedule state", state);
  State loaded{entries.take_number("best")};
  loaded.num_bad_epochs = entries.take_count("num_bad_epochs");
  loaded.cooldown_counter = entries.take_count("cooldown_counter");
  loaded.last_epoch = entries.take_count("last_epoch");
  auto& groups = optimizer_.param_groups();
  std::vector<double> rates;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    rates.push_back(entries.take_number("lr." + std::to_string(g)));
  }
  entries.expect_empty();
  for (std::size_t g = 0; g < groups.size(); ++g) groups[g].options.at("lr") = rates[g];
  state_ = loaded;
}

}  // namespace lr_scheduler
}  // namespace optim
}  // namespace hvd
