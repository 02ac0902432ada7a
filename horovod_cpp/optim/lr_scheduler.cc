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

void require(bool condition, const auto&... what) {
  if (!condition) throw InvalidArgumentError(what...);
}

void check(bool in_range, const char* scheduler, const char* argument, auto value,
           const std::string& expected) {
  require(in_range, scheduler, ": ", argument, " ", value, ", expected ", expected);
}

void check_positive(const char* scheduler, const char* argument, std::int64_t value) {
  check(value >= 1, scheduler, argument, value, "at least 1");
}

void check_not_negative(const char* scheduler, const char* argument, double value) {
  check(value >= 0 && std::isfinite(value), scheduler, argument, value, "a number of at least 0");
}

void check_milestones(const char* scheduler, const std::vector<std::int64_t>& milestones) {
  std::int64_t previous = 0;
  for (const std::int64_t milestone : milestones) {
    require(milestone > previous, scheduler, ": milestone ", milestone, " after ", previous,
            ", expected an ascending order");
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

const char* momentum_of(const Options& options) {
  if (options.contains("momentum")) return "momentum";
  return options.contains("beta1") ? "beta1" : nullptr;
}

// Of a list of one value for all groups or one each.
double of_group(const std::vector<double>& values, std::size_t group) {
  return values.size() == 1 ? values[0] : values.at(group);
}

// "<key><group>" for each value.
void add_rates(NamedTensors& state, const std::string& key, const std::vector<double>& rates) {
  for (std::size_t g = 0; g < rates.size(); ++g) {
    state.emplace_back(key + std::to_string(g), Tensor::scalar(rates[g], DType::kF64));
  }
}

std::vector<double> take_rates(StateEntries& entries, const std::string& key, std::size_t groups) {
  std::vector<double> rates;
  for (std::size_t g = 0; g < groups; ++g) {
    rates.push_back(entries.take_number(key + std::to_string(g)));
  }
  return rates;
}

}  // namespace

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {
  for (ParamGroup& group : optimizer.param_groups()) {
    if (!group.initial_lr) group.initial_lr = group.options.at("lr");
  }
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

std::vector<double> LRScheduler::get_last_lr() const {
  return rates_in_force(optimizer_);
}

double LRScheduler::initial_lr(std::size_t group) const {
  const std::vector<ParamGroup>& groups = optimizer_.param_groups();
  require(group < groups.size(), "lr_at: group ", group, " of ", groups.size());
  return groups[group].initial_lr.value();
}

NamedTensors LRScheduler::state_dict() const {
  NamedTensors state = {{"last_epoch", count_entry(last_epoch_)}};
  std::vector<double> rates;
  for (std::size_t g = 0; g < groups(); ++g) rates.push_back(initial_lr(g));
  add_rates(state, "initial_lr.", rates);
  return state;
}

void LRScheduler::load_state_dict(const NamedTensors& state) {
  StateEntries entries("schedule state", state);
  const std::int64_t epoch = entries.take_count("last_epoch");
  const std::vector<double> rates = take_rates(entries, "initial_lr.", groups());
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

void FormulaLR::start(Formula formula) {
  formula_ = std::move(formula);
  LRScheduler::start();
}

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma) : FormulaLR(optimizer) {
  check_positive("StepLR", "step_size", step_size);
  check_not_negative("StepLR", "gamma", gamma);
  start([=](double lr, std::int64_t epoch) {
    const std::int64_t steps = epoch / step_size;
    return lr * std::pow(gamma, static_cast<double>(steps));
  });
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma)
    : FormulaLR(optimizer) {
  check_milestones("MultiStepLR", milestones);
  check_not_negative("MultiStepLR", "gamma", gamma);
  start([gamma, milestones = std::move(milestones)](double lr, std::int64_t epoch) {
    return lr * std::pow(gamma, static_cast<double>(reached(milestones, epoch)));
  });
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma) : FormulaLR(optimizer) {
  check_not_negative("ExponentialLR", "gamma", gamma);
  start([=](double lr, std::int64_t epoch) {
    return lr * std::pow(gamma, static_cast<double>(epoch));
  });
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min)
    : FormulaLR(optimizer) {
  check_positive("CosineAnnealingLR", "t_max", t_max);
  check_not_negative("CosineAnnealingLR", "eta_min", eta_min);
  start([=](double lr, std::int64_t epoch) {
    const double turn = static_cast<double>(epoch) / static_cast<double>(t_max);
    return eta_min + (lr - eta_min) * ((1 + std::cos(std::numbers::pi * turn)) / 2);
  });
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   std::int64_t total_iters)
    : FormulaLR(optimizer) {
  check(start_factor > 0 && start_factor <= 1, "LinearLR", "start_factor", start_factor,
        "0 < start_factor <= 1");
  check(end_factor >= 0 && end_factor <= 1, "LinearLR", "end_factor", end_factor,
        "0 <= end_factor <= 1");
  check_positive("LinearLR", "total_iters", total_iters);
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
  require(lambdas_.size() == groups(), "LambdaLR: ", lambdas_.size(), " functions for ", groups(),
          " parameter groups");
  for (const Function& lambda : lambdas_) require(lambda != nullptr, "LambdaLR: no function");
  start();
}

double LambdaLR::lr_at(std::int64_t epoch, std::size_t group) const {
  require(group < lambdas_.size(), "LambdaLR: no function for parameter group ", group);
  return initial_lr(group) * lambdas_[group](epoch);
}

SequentialLR::SequentialLR(Optimizer& optimizer,
                           std::vector<std::shared_ptr<LRScheduler>> schedulers,
                           std::vector<std::int64_t> milestones)
    : LRScheduler(optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  require(schedulers_.size() == milestones_.size() + 1, "SequentialLR: ", schedulers_.size(),
          " schedules and ", milestones_.size(), " milestones, expected one fewer");
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
  check(options.scale > 0 && std::isfinite(options.scale), "LearningRateWarmup", "scale",
        options.scale, "a number above 0");
  check_not_negative("LearningRateWarmup", "warmup_epochs", options.warmup_epochs);
  check_positive("LearningRateWarmup", "steps_per_epoch", options.steps_per_epoch);
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
  check_options();
  for (const ParamGroup& group : optimizer.param_groups()) {
    require(!options_.cycle_momentum || momentum_of(group.options) != nullptr,
            "OneCycleLR: cycle_momentum, but the optimizer has neither momentum nor beta1");
  }
  const auto steps = static_cast<double>(options_.total_steps);
  ends_.push_back(options_.pct_start * steps - 1);
  if (options_.three_phase) ends_.push_back(2 * options_.pct_start * steps - 2);
  ends_.push_back(steps - 1);
  start();
}

void OneCycleLR::check_options() const {
  const OneCycleLROptions& o = options_;
  require(o.max_lr.size() == 1 || o.max_lr.size() == groups(), "OneCycleLR: ", o.max_lr.size(),
          " values of max_lr for ", groups(), " parameter groups");
  for (const double lr : o.max_lr) check_not_negative("OneCycleLR", "max_lr", lr);
  check(o.total_steps >= 2, "OneCycleLR", "total_steps", o.total_steps, "at least 2");
  check(o.pct_start >= 0 && o.pct_start <= (o.three_phase ? 0.5 : 1), "OneCycleLR", "pct_start",
        o.pct_start,
        std::string("0 <= pct_start <= ") + (o.three_phase ? "0.5 with three_phase" : "1"));
  require(o.div_factor > 0 && o.final_div_factor > 0, "OneCycleLR: div_factor ", o.div_factor,
          " and final_div_factor ", o.final_div_factor, ", expected numbers above 0");
  require(o.base_momentum >= 0 && o.base_momentum <= o.max_momentum && o.max_momentum < 1,
          "OneCycleLR: base_momentum ", o.base_momentum, " and max_momentum ", o.max_momentum,
          ", expected 0 <= base <= max < 1");
}

OneCycleLR::Place OneCycleLR::at(std::int64_t epoch) const {
  require(epoch <= options_.total_steps, "OneCycleLR: epoch ", epoch, " is beyond the total of ",
          options_.total_steps, " steps");
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
  const double max_lr = of_group(options_.max_lr, group);
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
  const auto require_option = [](bool in_range, const char* name, auto value,
                                 const char* expected) {
    check(in_range, "ReduceLROnPlateau", name, static_cast<double>(value), expected);
  };
  const ReduceLROnPlateauOptions& o = options_;
  require_option(o.factor >= 0 && o.factor < 1, "factor", o.factor, "0 <= factor < 1");
  require_option(o.patience >= 0, "patience", o.patience, "at least 0");
  require_option(o.cooldown >= 0, "cooldown", o.cooldown, "at least 0");
  // A minimum of 0 * infinity would never be undercut.
  const bool relative = o.threshold_mode == ThresholdMode::kRel;
  require_option(o.threshold >= 0 && !(relative && o.threshold >= 1), "threshold", o.threshold,
                 "0 <= threshold, and threshold < 1 where it is relative");
  require_option(o.eps >= 0, "eps", o.eps, "at least 0");
  for (const double lr : o.min_lr) require_option(lr >= 0, "min_lr", lr, "at least 0");
  require_option(o.min_lr.size() == 1 || o.min_lr.size() == optimizer.param_groups().size(),
                 "min_lr: a list of", o.min_lr.size(), "one value, or one for each group");
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
    const double floor = of_group(options_.min_lr, g);
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
  add_rates(state, "lr.", get_last_lr());
  return state;
}

void ReduceLROnPlateau::load_state_dict(const NamedTensors& state) {
  StateEntries entries("schedule state", state);
  State loaded{entries.take_number("best")};
  loaded.num_bad_epochs = entries.take_count("num_bad_epochs");
  loaded.cooldown_counter = entries.take_count("cooldown_counter");
  loaded.last_epoch = entries.take_count("last_epoch");
  auto& groups = optimizer_.param_groups();
  const std::vector<double> rates = take_rates(entries, "lr.", groups.size());
  entries.expect_empty();
  for (std::size_t g = 0; g < groups.size(); ++g) groups[g].options.at("lr") = rates[g];
  state_ = loaded;
}

}  // namespace hvd::optim::lr_scheduler
