// Gradients after backward(): how they are waited for and given back.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/base/status.h"
#include "core/runtime/wake/submission_group.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/gradient_reducer.h"

namespace hvd {
namespace {

// From the end of backward() to step(), also where both are Python.
constexpr Duration kAtOnce = std::chrono::microseconds(300);

void append(std::vector<std::size_t>& to, const std::vector<std::size_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<std::size_t> up_to(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

// Takes the next one from those that are left, which are in order of their start: the last, which
// ends after the others as a rule, so that this thread waits once; with `overtake` the first that
// is over.
std::size_t next_finished(const std::vector<GradientReduction*>& left, bool overtake) {
  constexpr Duration kFirstOneFirst = std::chrono::milliseconds(1);
  if (!overtake) return left.size() - 1;
  while (true) {
    const auto next = std::ranges::find_if(left, &GradientReduction::over);
    if (next != left.end()) return static_cast<std::size_t>(next - left.begin());
    left.front()->wait_until(Clock::now() + kFirstOneFirst);
  }
}

}  // namespace

void GradientReducer::synchronize(const OnReduced& on_reduced) {
  if (!active_) return;
  check_not_replaced();
  const auto backward_ended = std::exchange(backward_ended_, {});
  if (backward_ended) waits_at_once_ = Clock::now() - *backward_ended < kAtOnce;
  votes_.set_early_carrier(backward_ended && !waits_at_once_);
  const bool first_round = !schedule_.reduced();
  start_rounds();
  finish_first_round(on_reduced);
  late_round(on_reduced);
  votes_.tell_of_differences(attempts_);

  const bool agreed = !votes_.given_up();
  const std::vector<std::uint8_t> votes = votes_.forget();
  const bool changed = first_round || !late_.empty();
  late_.clear();
  clipped_before_ = false;
  const Attempts attempts = std::exchange(attempts_, {});
  if (!attempts.failed()) {
    schedule_.finish(votes);
  } else {
    schedule_.fail();
    if (agreed) schedule_.set_members(votes);  // as on the others: this rank may have failed alone
  }
  attempts.throw_first();
  for (const Entry& entry : entries_) {  // what they have counted is reduced now
    for (const auto& [reducer, index] : entry.claims->all()) {
      if (reducer != this) reducer->schedule_.forget(index);
    }
  }
  layout_.move_to_views();
  if (changed) clip(ClipGradNorm::When::kAfterReduction, up_to(entries_.size()));
}

// The first rounds of all buckets, and the vote.
void GradientReducer::start_rounds() {
  // The others may wait for this rank at another place if something was not submitted here.
  if (std::ranges::any_of(buckets_, [](const auto& each) { return each->refused(); })) {
    votes_.give_up();
  } else if (context_.over_ranks) {
    layout_.ask_for_views();
    layout_.agree_on_setup();
    if (layout_.agree()) votes_.expect_news();
  }
  if (!schedule_.reduced()) {
    if (!std::exchange(clipped_before_, true))
      clip(ClipGradNorm::When::kBeforeReduction, up_to(entries_.size()));
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      if (!schedule_.taken(b)) attempts_.run([&] { start_first_round(b); });
    }
  }
  const engine::SubmissionGroup group;
  attempts_.run([&] { votes_.ask(); });
  attempts_.run([&] { submit_waiting(true); });
}

// By what the ranks have in common, and not by whose backward() has used the parameter.
void GradientReducer::check_not_replaced() const {
  if (is_given_way_) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const GradientReducer* newest = entries_[i].claims->newest();
    if (newest == this || newest->held()) continue;
    throw InvalidArgumentError(name() + " was replaced: " + newest->name() +
                               " was made later, and reduces the gradient of '" +
                               context_.gradients->parameters()[i].name +
                               "' now. Use the new one; or, if several are meant to be "
                               "used in turn, run each backward() inside no_sync() of the others");
  }
}

void GradientReducer::finish_first_round(const OnReduced& on_reduced) {
  if (on_reduced == nullptr) {
    // First all waits, which may be interrupted.
    std::for_each(first_round_.rbegin(), first_round_.rend(),
                  [](GradientReduction* each) { each->wait(); });
  }
  if (!votes_.collected()) {
    votes_.collect(attempts_);
    if (votes_.new_sparse()) layout_.forget();
  }
  if (votes_.new_sparse() && layout_.agree()) votes_.expect_news();
  std::vector<std::size_t> arrived, complete;
  const auto deliver = [&] {
    attempts_.run([&] { context_.gradients->arrived(std::exchange(arrived, {})); });
    give_back(std::exchange(complete, {}), on_reduced);
  };
  while (!first_round_.empty()) {  // all of them: then nothing is in flight any more
    const std::size_t next = next_finished(first_round_, on_reduced != nullptr);
    GradientReduction& reduction = *first_round_[next];
    reduction.wait();
    first_round_.erase(first_round_.begin() + static_cast<std::ptrdiff_t>(next));
    attempts_.run([&] {
      reduction.finish();
      append(arrived, reduction.dense());
    });
    std::ranges::copy_if(reduction.params(), std::back_inserter(complete), [&](std::size_t i) {
      return (votes_.votes()[i] & ReductionSchedule::kLate) == 0;
    });
    if (on_reduced != nullptr) deliver();
  }
  deliver();
}

void GradientReducer::late_round(const OnReduced& on_reduced) {
  const std::vector<std::size_t> late = ReductionSchedule::late(votes_.votes());
  if (late.empty()) return;
  const auto start_all = [&] {
    for (const std::size_t i : late) {
      if (schedule_.needs_room(i)) context_.gradients->make_room(i);
    }
    context_.gradients->set_aside(late);
    if (!std::exchange(clipped_before_, true)) clip(ClipGradNorm::When::kBeforeReduction, late);
    for (const auto& bucket : buckets_) {
      std::vector<std::size_t> params;
      std::ranges::copy_if(bucket->params(), std::back_inserter(params),
                           [&](std::size_t i) { return std::ranges::binary_search(late, i); });
      if (params.empty()) continue;
      late_.push_back(std::make_unique<GradientReduction>(context_, params, ".late"));
      for (const std::size_t i : params) average(i);
      attempts_.run([&] { start(*late_.back(), params); });
    }
    attempts_.run([&] { submit_waiting(); });
  };
  if (late_.empty()) attempts_.run(start_all);
  std::for_each(late_.rbegin(), late_.rend(), [](const auto& each) { each->wait(); });
  for (const auto& reduction : late_) {
    attempts_.run([&] {
      if (!reduction->in_flight()) return;
      reduction->finish();
      context_.gradients->arrived(reduction->dense());
    });
  }
  give_back(late, on_reduced);
}

void GradientReducer::give_back(const std::vector<std::size_t>& params,
                                const OnReduced& on_reduced) {
  std::vector<std::size_t> kept, nobodys;
  for (const std::size_t i : params) {
    // Zeros would be a gradient for an optimizer, which passes over what has none.
    (votes_.votes()[i] == 0 ? nobodys : kept).push_back(i);
  }
  attempts_.run([&] { context_.gradients->give_back(kept); });
  attempts_.run([&] { context_.gradients->leave(nobodys); });
  if (on_reduced != nullptr && !attempts_.failed()) attempts_.run([&] { on_reduced(kept); });
}

void GradientReducer::clip(ClipGradNorm::When when, GradientAccess::Indices which) {
  if (!context_.options.clip_grad_norm || context_.options.clip_grad_norm->when != when) return;
  if (when == ClipGradNorm::When::kBeforeReduction) {
    for (const std::size_t i : which) average(i);
  }
  context_.gradients->clip(which, context_.options.clip_grad_norm->max_norm);
}

std::string GradientReducer::in_flight() const {
  for (const auto* reductions : {&buckets_, &late_}) {
    for (const auto& each : *reductions) {
      if (each->in_flight()) return each->name();
    }
  }
  return "";
}

std::string GradientReducer::unreduced() const {
  const auto index = schedule_.first_unreduced();
  return index ? context_.gradients->parameters()[*index].name : "";
}

std::vector<std::string> GradientReducer::call_names() const {
  std::vector<std::string> names;
  for (const auto& bucket : buckets_) names.push_back(bucket->call_name());
  return names;
}

void GradientReducer::drop_accumulated() {
  schedule_.drop();
  is_given_way_ = false;
  for (Entry& entry : entries_) entry.has_windows = false;
  for (const auto& bucket : buckets_) bucket->forget_refusal();
  context_.gradients->drop(up_to(entries_.size()));
}

void GradientReducer::set_backward_passes_per_step(int passes) {
  if (layout_.agreement() != nullptr) {
    layout_.agreement()->compare("backward_passes_per_step", passes, std::to_string(passes));
  }
  schedule_.set_passes_per_window(passes);
}

}  // namespace hvd
