#include "horovod_cpp/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/optim/state_entries.h"

namespace hvd::optim::lr_scheduler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require(bool condition, const std::string& what) {
  if (!condition) throw InvalidArgumentError(what);
}

std::string text(double value) {
  return std::to_string(value);
}

void check_gamma(const char* scheduler, double gamma) {
  require(gamma >= 0 && std::isfinite(gamma),
          std::string(scheduler) + ": gamma " + text(gamma) + ", expected a number of at least 0");
}

void check_milestones(const char* scheduler, const std::vector<std::int64_t>& milestones) {
  std::int64_t previous = 0;
  for (const std::int64_t milestone : milestones) {
    require(milestone > previous, std::string(scheduler) + ": milestone " +
                                      std::to_string(milestone) + " after " +
                                      std::to_string(previous) + ", expected an ascending order");
    previous = milestone;
  }
}

std::vector<double> rates_in_force(Optimizer& optimizer) {
  std::vector<double> rates;
  for (const ParamGroup& group : optimizer.param_groups()) {
    rates.push_back(group.options.at("lr"));
  }
  return rates;
}

// How many milestones are at or before `epoch`.
std::size_t reached(const std::vector<std::int64_t>& milestones, std::int64_t epoch) {
  const auto next = std::upper_bound(milestones.begin(), milestones.end(), epoch);
  return static_cast<std::size_t>(next - milestones.begin());
}

void require_one_cycle(bool condition, const std::string& what) {
  if (!condition) throw InvalidArgumentError("OneCycleLR: " + what);
}

const char* momentum_of(const Options& options) {
  if (options.contains("momentum")) return "momentum";
  return options.contains("beta1") ? "beta1" : nullptr;
}

void require_plateau(bool condition, const char* name, double value, const char* expected) {
  if (condition) return;
  throw InvalidArgumentError(std::string("ReduceLROnPlateau: ") + name + " " +
                             std::to_string(value) + ", expected " + expected);
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (ParamGroup& group : optimizer.param_groups()) {
    if (!group.initial_lr) group.initial_lr = group.options.at("lr");
  }
}

void LRScheduler::start() {
  apply(0);
}

void LRScheduler::step() {
  for (ParamGroup& group : optimizer_.param_groups()) {
    if (!group.initial_lr) group.initial_lr = group.options.at("lr");
  }
  apply(last_epoch_ + 1);
  ++last_epoch_;
}

void LRScheduler::apply(std::int64_t epoch) {
  std::vector<Options> all;
  for (std::size_t g = 0; g < groups(); ++g) all.push_back(options_at(epoch, g));
  for (std::size_t g = 0; g < groups(); ++g) {
    for (const auto& [name, value] : all[g]) {
      optimizer_.param_groups()[g].options.at(name) = value;
    }
  }
}

Options LRScheduler::options_at(std::int64_t epoch, std::size_t group) const {
  return {{"lr", lr_at(epoch, group)}};
}

std::vector<double> LRScheduler::get_last_lr() const {
  return rates_in_force(optimizer_);
}

double LRScheduler::initial_lr(std::size_t group) const {
  const std::vector<ParamGroup>& groups = optimizer_.param_groups();
  require(group < groups.size(),
          "lr_at: group " + std::to_string(group) + " of " + std::to_string(groups.size()));
  return groups[group].initial_lr.value();
}

std::size_t LRScheduler::groups() const {
  return optimizer_.param_groups().size();
}

const Options& LRScheduler::group_options(std::size_t group) const {
  return optimizer_.param_groups().at(group).options;
}

NamedTensors LRScheduler::state_dict() const {
  NamedTensors state = {{"last_epoch", count_entry(last_epoch_)}};
  for (std::size_t g = 0; g < groups(); ++g) {
    state.emplace_back("initial_lr." + std::to_string(g),
                       Tensor::scalar(initial_lr(g), DType::kF64));
  }
  return state;
}

void LRScheduler::load_state_dict(const NamedTensors& state) {
  StateEntries entries("schedule state", state);
  const std::int64_t epoch = entries.take_count("last_epoch");
  std::vector<double> rates;
  for (std::size_t g = 0; g < groups(); ++g) {
    rates.push_back(entries.take_number("initial_lr." + std::to_string(g)));
  }
  entries.expect_empty();
  std::vector<double> before;
  for (std::size_t g = 0; g < groups(); ++g) {
    before.push_back(std::exchange(optimizer_.param_groups()[g].initial_lr, rates[g]).value());
  }
  try {
    apply(epoch);
  } catch (...) {
    for (std::size_t g = 0; g < groups(); ++g) optimizer_.param_groups()[g].initial_lr = before[g];
    throw;
  }
  last_epoch_ = epoch;
}

double FormulaLR::lr_at(std::int64_t epoch, std::size_t group) const {
  return formula_(initial_lr(group), epoch);
}

void FormulaLR::start(Formula formula) {
  formula_ = std::move(formula);
  LRScheduler::start();
}

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma) : FormulaLR(optimizer) {
  require(step_size >= 1,
          "StepLR: step_size " + std::to_string(step_size) + ", expected at least 1");
  check_gamma("StepLR", gamma);
  start([=](double lr, std::int64_t epoch) {
    const std::int64_t steps = epoch / step_size;
    return lr * std::pow(gamma, static_cast<double>(steps));
  });
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma)
    : FormulaLR(optimizer) {
  check_milestones("MultiStepLR", milestones);
  check_gamma("MultiStepLR", gamma);
  start([gamma, milestones = std::move(milestones)](double lr, std::int64_t epoch) {
    return lr * std::pow(gamma, static_cast<double>(reached(milestones, epoch)));
  });
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : FormulaLR(optimizer) {
  check_gamma("ExponentialLR", gamma);
  start([=](double lr, std::int64_t epoch) {
    return lr * std::pow(gamma, static_cast<double>(epoch));
  });
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min)
    : FormulaLR(optimizer) {
  require(t_max >= 1,
          "CosineAnnealingLR: t_max " + std::to_string(t_max) + ", expected at least 1");
  require(eta_min >= 0 && std::isfinite(eta_min),
          "CosineAnnealingLR: eta_min " + text(eta_min) + ", expected a number of at least 0");
  start([=](double lr, std::int64_t epoch) {
    const double turn = static_cast<double>(epoch) / static_cast<double>(t_max);
    return eta_min + (lr - eta_min) * ((1 + std::cos(std::numbers::pi * turn)) / 2);
  });
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   std::int64_t total_iters)
    : FormulaLR(optimizer) {
  require(start_factor > 0 && start_factor <= 1,
          "LinearLR: start_factor " + text(start_factor) + ", expected 0 < start_factor <= 1");
  require(end_factor >= 0 && end_factor <= 1,
          "LinearLR: end_factor " + text(end_factor) + ", expected 0 <= end_factor <= 1");
  require(total_iters >= 1,
          "LinearLR: total_iters " + std::to_string(total_iters) + ", expected at least 1");
  start([=](double lr, std::int64_t epoch) {
    const double share =
        static_cast<double>(std::min(epoch, total_iters)) / static_cast<double>(total_iters);
    return lr * (start_factor + (end_factor - start_factor) * share);
  });
}

LambdaLR::LambdaLR(Optimizer& optimizer, const Function& lambda)
    : LambdaLR(optimizer, std::vector<Function>(optimizer.param_groups().size(), lambda)) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Function> lambdas)
    : LRScheduler(optimizer), lambdas_(std::move(lambdas)) {
  require(lambdas_.size() == groups(), "LambdaLR: " + std::to_string(lambdas_.size()) +
                                           " functions for " + std::to_string(groups()) +
                                           " parameter groups");
  for (const Function& lambda : lambdas_) require(lambda != nullptr, "LambdaLR: no function");
  start();
}

double LambdaLR::lr_at(std::int64_t epoch, std::size_t group) const {
  require(group < lambdas_.size(),
          "LambdaLR: no function for parameter group " + std::to_string(group));
  return initial_lr(group) * lambdas_[group](epoch);
}

SequentialLR::SequentialLR(Optimizer& optimizer,
                           std::vector<std::shared_ptr<LRScheduler>> schedulers,
                           std::vector<std::int64_t> milestones)
    : LRScheduler(optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  require(schedulers_.size() == milestones_.size() + 1,
          "SequentialLR: " + std::to_string(schedulers_.size()) + " schedules and " +
              std::to_string(milestones_.size()) + " milestones, expected one fewer");
  check_milestones("SequentialLR", milestones_);
  for (const auto& scheduler : schedulers_) {
    require(scheduler != nullptr && scheduler->is_of(optimizer),
            "SequentialLR: a schedule is missing or of another optimizer");
  }
  start();
}

SequentialLR::Place SequentialLR::at(std::int64_t epoch) const {
  const std::size_t index = reached(milestones_, epoch);
  const std::int64_t began = index == 0 ? 0 : milestones_[index - 1];
  return {schedulers_[index].get(), epoch - began};
}

double SequentialLR::lr_at(std::int64_t epoch, std::size_t group) const {
  const Place place = at(epoch);
  return place.scheduler->lr_at(place.epoch, group);
}

Options SequentialLR::options_at(std::int64_t epoch, std::size_t group) const {
  const Place place = at(epoch);
  return place.scheduler->options_at(place.epoch, group);
}

LearningRateWarmup::LearningRateWarmup(Optimizer& optimizer,
                                       const LearningRateWarmupOptions& options,
                                       std::shared_ptr<LRScheduler> schedule)
    : LRScheduler(optimizer), options_(options), schedule_(std::move(schedule)) {
  require(options.scale > 0 && std::isfinite(options.scale),
          "LearningRateWarmup: scale " + text(options.scale) + ", expected a number above 0");
  require(options.warmup_epochs >= 0 && std::isfinite(options.warmup_epochs),
          "LearningRateWarmup: warmup_epochs " + text(options.warmup_epochs) +
              ", expected a number of at least 0");
  require(options.steps_per_epoch >= 1, "LearningRateWarmup: steps_per_epoch " +
                                            std::to_string(options.steps_per_epoch) +
                                            ", expected at least 1");
  require(schedule_ == nullptr || schedule_->is_of(optimizer),
          "LearningRateWarmup: the schedule is of another optimizer");
  start();
}

double LearningRateWarmup::factor_at(std::int64_t epoch) const {
  const double passes =
      static_cast<double>(epoch + 1) / static_cast<double>(options_.steps_per_epoch);
  if (passes >= options_.warmup_epochs) return options_.scale;
  return 1 + (options_.scale - 1) * passes / options_.warmup_epochs;
}

double LearningRateWarmup::lr_at(std::int64_t epoch, std::size_t group) const {
  const double lr = schedule_ == nullptr ? initial_lr(group) : schedule_->lr_at(epoch, group);
  return lr * factor_at(epoch);
}

Options LearningRateWarmup::options_at(std::int64_t epoch, std::size_t group) const {
  Options options = schedule_ == nullptr ? Options{} : schedule_->options_at(epoch, group);
  options["lr"] = lr_at(epoch, group);
  return options;
}

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
  return rates_in_force(optimizer_);
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

}  // namespace hvd::optim::lr_scheduler
