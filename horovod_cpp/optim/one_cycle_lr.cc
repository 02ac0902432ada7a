#include "horovod_cpp/optim/one_cycle_lr.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "core/base/status.h"

namespace hvd {
namespace optim {
namespace lr_scheduler {
namespace {

void require_one_cycle(bool condition, const std::string& what) {
  if (!condition) throw InvalidArgumentError("OneCycleLR: " + what);
}

const char* momentum_of(const Options& options) {
  if (options.contains("momentum")) return "momentum";
  return options.contains("beta1") ? "beta1" : nullptr;
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : LRScheduler(optimizer), options_(std::move(options)) {
  check();
  for (const ParamGroup& group : optimizer.param_groups()) {
    require_one_cycle(!options_.cycle_momentum || momentum_of(group.options) != nullptr,
                      "cycle_momentum, but the optimizer has neither momentum nor beta1");
  }
  const auto steps = static_cast<double>(options_.total_steps);
  ends_.push_back(options_.pct_start * steps - 1);
  if (options_.three_phase) ends_.push_back(2 * options_.pct_start * steps - 2);
  ends_.push_back(steps - 1);
  start();
}

void OneCycleLR::check() const {
  const OneCycleLROptions& o = options_;
  require_one_cycle(o.max_lr.size() == 1 || o.max_lr.size() == groups(),
                    std::to_string(o.max_lr.size()) + " values of max_lr for " +
                        std::to_string(groups()) + " parameter groups");
  for (const double lr : o.max_lr) {
    require_one_cycle(lr >= 0 && std::isfinite(lr),
                      "max_lr " + std::to_string(lr) + ", expected a number of at least 0");
  }
  require_one_cycle(o.total_steps >= 2,
                    "total_steps " + std::to_string(o.total_steps) + ", expected at least 2");
  require_one_cycle(o.pct_start >= 0 && o.pct_start <= (o.three_phase ? 0.5 : 1),
                    "pct_start " + std::to_string(o.pct_start) + ", expected 0 <= pct_start <= " +
                        (o.three_phase ? "0.5 with three_phase" : "1"));
  require_one_cycle(o.div_factor > 0 && o.final_div_factor > 0,
                    "div_factor " + std::to_string(o.div_factor) + " and final_div_factor " +
                        std::to_string(o.final_div_factor) + ", expected numbers above 0");
  require_one_cycle(o.base_momentum >= 0 && o.base_momentum <= o.max_momentum && o.max_momentum < 1,
                    "base_momentum " + std::to_string(o.base_momentum) + " and max_momentum " +
                        std::to_string(o.max_momentum) + ", expected 0 <= base <= max < 1");
}

OneCycleLR::Place OneCycleLR::at(std::int64_t epoch) const {
  require_one_cycle(epoch <= options_.total_steps,
                    "epoch " + std::to_string(epoch) + " is beyond the total of " +
                        std::to_string(options_.total_steps) + " steps");
  const auto now = static_cast<double>(epoch);
  std::size_t phase = 0;
  while (phase + 1 < ends_.size() && now > ends_[phase]) ++phase;
  const double begin = phase == 0 ? 0 : ends_[phase - 1];
  if (ends_[phase] <= begin) return {phase, 1};
  return {phase, std::min((now - begin) / (ends_[phase] - begin), 1.0)};
}

double OneCycleLR::between(double a, double b, double share) const {
  if (options_.anneal_strategy == AnnealStrategy::kLinear) return a + (b - a) * share;
  return b + (a - b) / 2 * (1 + std::cos(std::numbers::pi * share));
}

double OneCycleLR::lr_at(std::int64_t epoch, std::size_t group) const {
  const double max_lr =
      options_.max_lr.size() == 1 ? options_.max_lr[0] : options_.max_lr.at(group);
  const double first = max_lr / options_.div_factor;
  std::vector<double> turns = {first, max_lr, first / options_.final_div_factor};
  if (options_.three_phase) turns.insert(turns.begin() + 2, first);
  const Place place = at(epoch);
  return between(turns[place.from], turns[place.from + 1], place.share);
}

Options OneCycleLR::options_at(std::int64_t epoch, std::size_t group) const {
  Options options = {{"lr", lr_at(epoch, group)}};
  if (!options_.cycle_momentum) return options;
  const double high = options_.max_momentum;
  std::vector<double> turns = {high, options_.base_momentum, high, high};
  const Place place = at(epoch);
  options[momentum_of(group_options(group))] =
      between(turns[place.from], turns[place.from + 1], place.share);
  return options;
}

}  // namespace lr_scheduler
}  // namespace optim
}  // namespace hvd
