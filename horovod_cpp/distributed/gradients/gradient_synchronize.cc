// Gradients after backward(): how they are waited for and given back.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/base/content_hash.h"
#include "core/base/status.h"
#include "core/runtime/wake/loop_ownership.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/attempts.h"
#include "horovod_cpp/distributed/gradients/gradient_reducer.h"
#include "horovod_cpp/distributed/gradients/warn.h"

namespace hvd {
namespace {

// From the end of backward() to step(), also where both are Python.
constexpr Duration kAtOnce = std::chrono::microseconds(300);

void append(std::vector<std::size_t>& to, const std::vector<std::size_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void GradientReducer::wait_for(const Reduction& reduction) const {
  const auto wait = [](CallInFlight& call) {
    while (!call.wait_until(Clock::now() + std::chrono::hours(1))) {
    }
  };
  if (reduction.call != nullptr) wait(*reduction.call);
  for (const auto& call : reduction.sparse_calls) wait(*call);
}

void GradientReducer::finish(Reduction& reduction) {
  const std::shared_ptr<CallInFlight> call = std::exchange(reduction.call, nullptr);
  reduction.sparse_calls.clear();
  reduction.taken.tensors.clear();
  Attempts attempts;
  attempts.run([&] {
    if (reduction.refusal != nullptr) std::rethrow_exception(reduction.refusal);
    if (call == nullptr) return;
    const Device device = call->device();
    call->result(device.kind == DeviceKind::kCpu ? MaybeStream{} : gradients_->reader(device));
  });
  for (const std::size_t i : reduction.taken.sparse) {
    attempts.run([&] { gradients_->finish_sparse(i); });
  }
  reduction.in_flight = false;
  reduction.refusal = nullptr;
  attempts.throw_first();
}

std::size_t GradientReducer::next_finished(const std::vector<Reduction*>& left,
                                           bool overtake) const {
  constexpr Duration kFirstOneFirst = std::chrono::milliseconds(1);
  const auto over = [](const Reduction* reduction) {
    const auto done = [](const auto& call) { return call->wait_until(Clock::now()); };
    return (reduction->call == nullptr || done(reduction->call)) &&
           std::ranges::all_of(reduction->sparse_calls, done);
  };
  if (!overtake) return left.size() - 1;
  while (true) {
    const auto next = std::ranges::find_if(left, over);
    if (next != left.end()) return static_cast<std::size_t>(next - left.begin());
    if (left.front()->call == nullptr) return 0;
    left.front()->call->wait_until(Clock::now() + kFirstOneFirst);
  }
}

void GradientReducer::synchronize(const OnReduced& on_reduced) {
  if (!active_) return;
  check_not_replaced();
  waits_at_once_ = Clock::now() - backward_ended_ < kAtOnce;
  // The others may wait for this rank at another place if something was not submitted here.
  const bool refused =
      std::ranges::any_of(buckets_, [](const auto& bucket) { return bucket->refusal != nullptr; });
  if (refused) {
    votes_.emplace(entries_.size());
  } else if (reduces_) {
    ask_for_views();
    agree_on_setup();
    agree_on_layout();
  }
  const bool first_round = !schedule_.reduced();
  if (first_round && clips(ClipGradNorm::When::kBeforeReduction) &&
      !std::exchange(clipped_before_, true)) {
    for (std::size_t i = 0; i < entries_.size(); ++i) average(i);
    gradients_->clip(options_.clip_grad_norm->max_norm);
  }
  for (std::size_t b = 0; first_round && b < buckets_.size(); ++b) {
    if (!schedule_.taken(b)) attempts_.run([&] { start_first_round(b); });
  }
  attempts_.run([&] {
    const LoopOwnership::SuppressWakeup waits;
    ask_votes();
    submit_waiting();
  });
  finish_first_round(on_reduced);
  late_round(on_reduced);
  if (options_differ_) compare_options();

  const std::vector<std::uint8_t> votes = *std::exchange(votes_, {});
  const bool changed = first_round || !late_.empty();
  late_.clear();
  driven_.clear();
  clipped_before_ = false;
  const Attempts attempts = std::exchange(attempts_, {});
  if (attempts.failed()) schedule_.fail();
  attempts.throw_first();
  schedule_.finish(votes);
  for (const Entry& entry : entries_) {  // what they have counted is reduced now
    for (const auto& [reducer, index] : entry.claims->all()) {
      if (reducer != this) reducer->schedule_.forget(index);
    }
  }
  move_into_views();
  if (changed && clips(ClipGradNorm::When::kAfterReduction)) {
    gradients_->clip(options_.clip_grad_norm->max_norm);
  }
}

// By what the ranks have in common, and not by whose backward() has used the parameter.
void GradientReducer::check_not_replaced() const {
  if (is_given_way_) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const GradientReducer* newest = entries_[i].claims->newest();
    if (newest == this || newest->held()) continue;
    throw InvalidArgumentError(name() + " was replaced: " + newest->name() +
                               " was made later, and reduces the gradient of '" +
                               gradients_->parameters()[i].name +
                               "' now. Use the new one; or, if several are meant to be "
                               "used in turn, run each backward() inside no_sync() of the others");
  }
}

void GradientReducer::ask_votes() {
  if (votes_ || !reduces_) return;
  std::vector<std::uint8_t> votes = schedule_.vote(gradients_->trained());
  // A hash and its complement: where two ranks differ, their or has a bit in both.
  const std::string options = compares_options_ ? gradients_->options() : "";
  const std::uint64_t hash = content_hash(std::as_bytes(std::span(options)));
  for (int bits = 0; bits < 64; bits += 8) {
    votes.push_back(compares_options_ ? static_cast<std::uint8_t>(hash >> bits) : 0);
    votes.push_back(compares_options_ ? static_cast<std::uint8_t>(~hash >> bits) : 0);
  }
  votes.push_back(gradients_->has_new_sparse() ? 1 : 0);
  agreement_->ask("votes", votes);
}

const std::vector<std::uint8_t>& GradientReducer::votes() {
  if (votes_) return *votes_;
  if (!reduces_) return votes_.emplace(schedule_.vote(gradients_->trained()));
  try {
    std::vector<std::uint8_t> votes = agreement_->bitwise_or("votes");
    new_sparse_ = votes.back() != 0;
    if (new_sparse_) agreed_layout_.reset();
    for (std::size_t i = entries_.size(); i + 1 < votes.size(); i += 2) {
      options_differ_ = options_differ_ || (votes[i] & votes[i + 1]) != 0;
    }
    votes.resize(entries_.size());
    votes_.emplace(std::move(votes));
  } catch (const Error&) {  // the other ranks have it too; what is in flight must end
    attempts_.run([] { throw; });
    votes_.emplace(entries_.size());
  }
  return *votes_;
}

void GradientReducer::finish_first_round(const OnReduced& on_reduced) {
  std::vector<Reduction*> left;
  for (const auto& bucket : buckets_) {
    if (bucket->in_flight) left.push_back(bucket.get());
  }
  std::ranges::sort(left, {}, &Reduction::order);
  if (on_reduced == nullptr) {
    // First all waits, which may be interrupted.
    std::for_each(left.rbegin(), left.rend(), [this](const Reduction* each) { wait_for(*each); });
  }
  const std::vector<std::uint8_t>& votes = this->votes();
  if (new_sparse_) {
    agree_on_layout();
    new_sparse_ = false;
  }
  std::vector<std::size_t> arrived, complete;
  const auto deliver = [&] {
    attempts_.run([&] { gradients_->arrived(std::exchange(arrived, {})); });
    give_back(std::exchange(complete, {}), on_reduced);
  };
  while (!left.empty()) {  // all of them: then nothing is in flight any more
    const std::size_t next = next_finished(left, on_reduced != nullptr);
    Reduction& reduction = *left[next];
    wait_for(reduction);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
    attempts_.run([&] {
      finish(reduction);
      append(arrived, reduction.taken.dense);
    });
    std::ranges::copy_if(reduction.params, std::back_inserter(complete),
                         [&](std::size_t i) { return (votes[i] & ReductionSchedule::kLate) == 0; });
    if (on_reduced != nullptr) deliver();
  }
  deliver();
}

void GradientReducer::compare_options() {
  const auto difference = agreement_->difference("options", gradients_->options());
  options_differ_ = false;
  const ProcessSet& set = options_.process_set;
  const bool is_error = set.world()->options().check_options == "error";
  compares_options_ = is_error;  // a warning is told once
  const std::string text = owner_ + ": the ranks' optimizers differ: " + difference.text +
                           ". Their parameters will differ too. Give all ranks the same options, a "
                           "scheduler the same metric (hvd.allreduce() it)";
  attempts_.run([&] {
    if (is_error) throw MismatchError(text);
    if (difference.teller != set.world()->topology().rank) return;
    warn(text + "; HVD_CHECK_OPTIONS=0 turns this check off, =error makes it an error");
  });
}

void GradientReducer::late_round(const OnReduced& on_reduced) {
  const std::vector<std::size_t> late = ReductionSchedule::late(votes());
  if (late.empty()) return;
  if (late_.empty()) attempts_.run([&] { start_late_round(late); });
  std::for_each(late_.rbegin(), late_.rend(), [this](const auto& each) { wait_for(*each); });
  for (const auto& reduction : late_) {
    attempts_.run([&] {
      if (!reduction->in_flight) return;
      finish(*reduction);
      gradients_->arrived(reduction->taken.dense);
    });
  }
  give_back(late, on_reduced);
}

void GradientReducer::start_late_round(const std::vector<std::size_t>& late) {
  for (const std::size_t i : late) {
    if (schedule_.needs_room(i)) gradients_->make_room(i);
  }
  gradients_->set_aside(late);
  Attempts attempts;
  for (const auto& bucket : buckets_) {
    std::vector<std::size_t> params;
    std::ranges::copy_if(bucket->params, std::back_inserter(params),
                         [&](std::size_t i) { return std::ranges::binary_search(late, i); });
    if (params.empty()) continue;
    late_.push_back(reduction_of(params, ".late"));
    for (const std::size_t i : params) average(i);
    attempts.run([&] { start(*late_.back(), params); });
  }
  attempts.run([&] { submit_waiting(); });
  attempts.throw_first();
}

void GradientReducer::give_back(const std::vector<std::size_t>& params,
                                const OnReduced& on_reduced) {
  std::vector<std::size_t> kept, nobodys;
  for (const std::size_t i : params) {
    // Zeros would be a gradient for an optimizer, which passes over frozen parameters.
    (votes()[i] == 0 ? nobodys : kept).push_back(i);
  }
  attempts_.run([&] { gradients_->give_back(kept); });
  attempts_.run([&] { gradients_->drop(nobodys); });
  if (on_reduced != nullptr && !attempts_.failed()) attempts_.run([&] { on_reduced(kept); });
}

// While backward() runs, or before gradients are submitted: then every rank asks before the others
// can leave the job. And not before the ranks agreed on the layout, so from the second step on.
void GradientReducer::ask_for_views() {
  if (!wants_views_ || agreed_layout_ != joins()) return;
  wants_views_ = false;
  std::vector<GradientParameter> places;
  viewed_.clear();
  for (std::size_t i = 0; i < entries_.size(); ++i) {  // by what the ranks have agreed on alone
    if (!schedule_.is_member(i) || agreed_axes_[i] > 0) continue;
    viewed_.push_back(i);
    places.push_back(gradients_->parameters()[i]);
  }
  if (places.empty()) return;
  views_.emplace(places, options_.process_set, gradients_->parameters().front().name + suffix_);
}

void GradientReducer::move_into_views() {
  if (!views_) return;
  const std::vector<Tensor> views = views_->take();
  views_.reset();
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].defined()) gradients_->move_to(viewed_[i], views[i]);
  }
}

bool GradientReducer::clips(ClipGradNorm::When when) const {
  return options_.clip_grad_norm && options_.clip_grad_norm->when == when;
}

std::string GradientReducer::in_flight() const {
  for (const auto* reductions : {&buckets_, &late_}) {
    for (const auto& each : *reductions) {
      if (each->in_flight) return each->name;
    }
  }
  return "";
}

std::string GradientReducer::late() const {
  const auto index = schedule_.reduced() ? schedule_.first_late() : std::nullopt;
  return index ? gradients_->parameters()[*index].name : "";
}

std::vector<std::string> GradientReducer::call_names() const {
  std::vector<std::string> names;
  for (const auto& bucket : buckets_) names.push_back(bucket->call_name);
  return names;
}

void GradientReducer::drop_accumulated() {
  schedule_.drop();
  is_given_way_ = false;
  for (Entry& entry : entries_) entry.has_windows = false;
  for (const auto& bucket : buckets_) bucket->refusal = nullptr;
  std::vector<std::size_t> all(entries_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  gradients_->drop(all);
}

// -- agreement

void GradientReducer::set_backward_passes_per_step(int passes) {
  if (shares_) agreement_->compare_passes(passes);
  schedule_.set_passes_per_window(passes);
}

SetupAgreement::Setup GradientReducer::setup() const {
  SetupAgreement::Setup setup;
  for (const auto& bucket : buckets_) setup.buckets.push_back(bucket->name);
  setup.passes_per_step = schedule_.passes_per_window();
  setup.is_first_step = is_first_step_;
  if (is_first_step_) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!schedule_.is_member(i)) setup.frozen.push_back(i);
    }
  }
  setup.compares_values =
      is_first_step_ && options_.process_set.world()->options().check_parameters;
  return setup;
}

std::uint64_t GradientReducer::joins() const {
  return options_.process_set.world()->joins(options_.process_set.id());
}

// While backward() runs, so that no rank waits for one that does something else before step().
void GradientReducer::ask_ahead() {
  if (!reduces_) return;
  ask_for_views();
  const std::uint64_t now = joins();
  if (agreed_setup_ != now) agreement_->ask(*gradients_, setup());
  if (agreed_layout_ != now) agreement_->ask("layout", layout());
}

void GradientReducer::agree_on_setup() {
  if (!shares_ || agreed_setup_ == joins()) return;
  const std::uint64_t now = joins();
  agreement_->compare(*gradients_, setup());
  agreed_setup_ = now;
  is_first_step_ = false;
}

// For each parameter over how many axes it is sparse, then whether it takes part in the first
// round; at last whether this rank wants views.
std::vector<std::int64_t> GradientReducer::layout() const {
  std::vector<std::int64_t> layout = gradients_->sparse_axes();
  for (std::size_t i = 0; i < entries_.size(); ++i)
    layout.push_back(schedule_.is_member(i) ? 1 : 0);
  layout.push_back(wants_views_ ? 1 : 0);
  return layout;
}

// A rank that has no gradient yet must send what the others do; one that had joined before its
// first step knows nothing of what they agreed.
void GradientReducer::agree_on_layout() {
  if (!reduces_ || agreed_layout_ == joins()) return;
  const std::uint64_t now = joins();
  const std::vector<std::int64_t> agreed = agreement_->greatest("layout", layout());
  const auto trained = agreed.begin() + static_cast<std::ptrdiff_t>(entries_.size());
  agreed_axes_.assign(agreed.begin(), trained);
  gradients_->set_sparse_axes(agreed_axes_);
  schedule_.set_members(std::vector<std::uint8_t>(trained, agreed.end() - 1));
  wants_views_ = agreed.back() == 1;
  agreed_layout_ = now;
}

}  // namespace hvd
