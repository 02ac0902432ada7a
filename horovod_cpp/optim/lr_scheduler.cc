#include "horovod_cpp/optim/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "horovod_cpp/optim/state_entries.h"

namespace hvd {
namespace optim {
namespace lr_scheduler {
namespace {

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

// How many milestones are at or before `epoch`.
std::size_t reached(const std::vector<std::int64_t>& milestones, std::int64_t epoch) {
  const auto next = std::upper_bound(milestones.begin(), milestones.end(), epoch);
  return static_cast<std::size_t>(next - milestones.begin());
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
  std::vector<double> rates;
  for (const ParamGroup& group : optimizer_.param_groups()) {
    rates.push_back(group.options.at("lr"));
  }
  return rates;
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

StepLR::StepLR(Optimizer& optimizer, std::int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  require(step_size >= 1,
          "StepLR: step_size " + std::to_string(step_size) + ", expected at least 1");
  check_gamma("StepLR", gamma);
  start();
}

double StepLR::lr_at(std::int64_t epoch, std::size_t group) const {
  const std::int64_t steps = epoch / step_size_;
  return initial_lr(group) * std::pow(gamma_, static_cast<double>(steps));
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, std::vector<std::int64_t> milestones, double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  check_milestones("MultiStepLR", milestones_);
  check_gamma("MultiStepLR", gamma);
  start();
}

double MultiStepLR::lr_at(std::int64_t epoch, std::size_t group) const {
  return initial_lr(group) * std::pow(gamma_, static_cast<double>(reached(milestones_, epoch)));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer), gamma_(gamma) {
  check_gamma("ExponentialLR", gamma);
  start();
}

double ExponentialLR::lr_at(std::int64_t epoch, std::size_t group) const {
  return initial_lr(group) * std::pow(gamma_, static_cast<double>(epoch));
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, std::int64_t t_max, double eta_min)
    : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  require(t_max >= 1,
          "CosineAnnealingLR: t_max " + std::to_string(t_max) + ", expected at least 1");
  require(eta_min >= 0 && std::isfinite(eta_min),
          "CosineAnnealingLR: eta_min " + text(eta_min) + ", expected a number of at least 0");
  start();
}

double CosineAnnealingLR::lr_at(std::int64_t epoch, std::size_t group) const {
  const double turn = static_cast<double>(epoch) / static_cast<double>(t_max_);
  const double share = (1 + std::cos(std::numbers::pi * turn)) / 2;
  return eta_min_ + (initial_lr(group) - eta_min_) * share;
}

LinearLR::LinearLR(Optimizer& optimizer, double start_factor, double end_factor,
                   std::int64_t total_iters)
    : LRScheduler(optimizer),
      start_factor_(start_factor),
      end_factor_(end_factor),
      total_iters_(total_iters) {
  require(start_factor > 0 && start_factor <= 1,
          "LinearLR: start_factor " + text(start_factor) + ", expected 0 < start_factor <= 1");
  require(end_factor >= 0 && end_factor <= 1,
          "LinearLR: end_factor " + text(end_factor) + ", expected 0 <= end_factor <= 1");
  require(total_iters >= 1,
          "LinearLR: total_iters " + std::to_string(total_iters) + ", expected at least 1");
  start();
}

double LinearLR::lr_at(std::int64_t epoch, std::size_t group) const {
  const double share =
      static_cast<double>(std::min(epoch, total_iters_)) / static_cast<double>(total_iters_);
  return initial_lr(group) * (start_factor_ + (end_factor_ - start_factor_) * share);
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

}  // namespace lr_scheduler
}  // namespace optim
}  // namespace hvd
