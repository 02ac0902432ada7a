#include "horovod_cpp/distributed/gradients/reduction_schedule.h"

#include <algorithm>
#include <utility>

namespace hvd {

void ReductionSchedule::add_parameters(const std::vector<bool>& trained) {
  for (const bool each : trained) {
    Parameter& param = parameters_.emplace_back();
    param.member = param.trained = each;
  }
}

void ReductionSchedule::add_bucket(std::vector<std::size_t> params) {
  for (const std::size_t i : params) parameters_[i].bucket = buckets_.size();
  buckets_.push_back({.params = std::move(params)});
}

ReductionSchedule::Before ReductionSchedule::before_gradient(std::size_t index) {
  Parameter& param = parameters_[index];
  if (param.member && (reduced_ || buckets_[param.bucket].taken) && !param.apart) {
    param.apart = true;
    return Before::kMakeRoom;
  }
  return param.whole ? Before::kCloseWindow : Before::kNothing;
}

std::optional<std::size_t> ReductionSchedule::on_gradient(std::size_t index) {
  Parameter& param = parameters_[index];
  const Bucket& bucket = buckets_[param.bucket];
  ++param.passes;
  ++param.seen;
  param.late = param.late || reduced_ || bucket.taken || !param.member;
  const bool held = holds_ > 0;
  param.whole = !held && param.passes >= passes_per_window_;
  // At the end of a window, so that it is averaged as a whole; else a program does as in the step
  // before.
  param.ready = param.whole && param.seen >= param.expected;
  if (!starts_early_ || !param.ready || reduced_ || bucket.taken || !is_ready(bucket)) return {};
  return param.bucket;
}

bool ReductionSchedule::is_ready(const Bucket& bucket) const {
  return std::ranges::all_of(bucket.params, [this](std::size_t i) {
    const Parameter& param = parameters_[i];
    return param.ready || !param.member || !param.trained;
  });
}

int ReductionSchedule::close_window(std::size_t index) {
  Parameter& param = parameters_[index];
  param.whole = false;
  return std::exchange(param.passes, 0);
}

void ReductionSchedule::take(std::size_t bucket) {
  buckets_[bucket].taken = true;
  for (const std::size_t i : members(bucket)) {
    Parameter& param = parameters_[i];
    param.passes = 0;
    param.whole = param.apart = param.late = false;
  }
}

std::vector<std::size_t> ReductionSchedule::members(std::size_t bucket) const {
  std::vector<std::size_t> members;
  for (const std::size_t i : buckets_[bucket].params) {
    if (parameters_[i].member) members.push_back(i);
  }
  return members;
}

std::optional<std::size_t> ReductionSchedule::first_unreduced() const {
  const auto found =
      std::ranges::find_if(parameters_, [](const Parameter& each) { return each.seen > 0; });
  if (found == parameters_.end()) return {};
  return static_cast<std::size_t>(found - parameters_.begin());
}

std::vector<std::uint8_t> ReductionSchedule::vote(const std::vector<bool>& trained) {
  std::vector<std::uint8_t> votes(parameters_.size());
  for (std::size_t i = 0; i < votes.size(); ++i) {
    Parameter& param = parameters_[i];
    param.trained = trained[i];
    votes[i] = static_cast<std::uint8_t>((param.trained ? kTrained : 0) |
                                         (param.seen > 0 ? kUsed : 0) | (param.late ? kLate : 0));
  }
  return votes;
}

bool ReductionSchedule::has_news(std::span<const std::uint8_t> votes) const {
  for (std::size_t i = 0; i < votes.size(); ++i) {
    const bool quiet =
        parameters_[i].member ? (votes[i] | kUsed) == (kTrained | kUsed) : votes[i] == 0;
    if (!quiet) return true;
  }
  return false;
}

std::vector<std::uint8_t> ReductionSchedule::quiet() const {
  std::vector<std::uint8_t> votes;
  for (const Parameter& param : parameters_) votes.push_back(param.member ? kTrained : 0);
  return votes;
}

std::vector<std::size_t> ReductionSchedule::late(std::span<const std::uint8_t> votes) {
  std::vector<std::size_t> late;
  for (std::size_t i = 0; i < votes.size(); ++i) {
    if ((votes[i] & kLate) != 0) late.push_back(i);
  }
  return late;
}

void ReductionSchedule::finish(std::span<const std::uint8_t> votes) {
  for (Parameter& param : parameters_) {
    if (!reduced_) param.expected = param.seen;
  }
  forget_all();
  for (Bucket& bucket : buckets_) bucket.taken = false;
  reduced_ = true;
  set_members(votes);
}

void ReductionSchedule::fail() {
  forget_all();
  for (Bucket& bucket : buckets_) bucket.taken = false;
  reduced_ = false;
}

void ReductionSchedule::begin_step() {
  reduced_ = false;
  passes_per_window_ = next_passes_per_window_;
}

void ReductionSchedule::set_passes_per_window(int passes) {
  next_passes_per_window_ = passes;
  if (!reduced_ && !first_unreduced()) passes_per_window_ = passes;
}

void ReductionSchedule::drop() {
  forget_all();
  begin_step();
}

void ReductionSchedule::forget_all() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) forget(i);
}

void ReductionSchedule::forget(std::size_t index) {
  Parameter& param = parameters_[index];
  param.passes = param.seen = 0;
  param.whole = param.ready = param.apart = param.late = false;
}

void ReductionSchedule::set_members(std::span<const std::uint8_t> votes) {
  for (std::size_t i = 0; i < votes.size(); ++i) {
    if (!buckets_[parameters_[i].bucket].taken) parameters_[i].member = (votes[i] & kTrained) != 0;
  }
}

}  // namespace hvd
