// Gradients after backward(): how they are waited for and given back.
#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/runtime/wake/loop_ownership.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/attempts.h"
#include "horovod_cpp/distributed/gradients/gradient_reducer.h"

namespace hvd {
namespace {

// From the end of backward() to step(), also where both are Python.
constexpr Duration kAtOnce = std::chrono::microseconds(300);

void append(std::vector<std::size_t>& to, const std::vector<std::size_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void GradientReducer::wait_for(const Bucket& bucket) const {
  const auto wait = [](CallInFlight& call) {
    while (!call.wait_until(Clock::now() + std::chrono::hours(1))) {
    }
  };
  if (bucket.call != nullptr) wait(*bucket.call);
  for (const auto& call : bucket.sparse_calls) wait(*call);
}

void GradientReducer::finish(Bucket& bucket) {
  const std::shared_ptr<CallInFlight> call = std::exchange(bucket.call, nullptr);
  bucket.sparse_calls.clear();
  bucket.taken.tensors.clear();
  Attempts attempts;
  attempts.run([&] {
    if (bucket.refusal != nullptr) std::rethrow_exception(bucket.refusal);
    if (call == nullptr) return;
    const Device device = call->device();
    call->result(device.kind == DeviceKind::kCpu ? MaybeStream{} : gradients_->reader(device));
  });
  for (const std::size_t i : bucket.taken.sparse) {
    attempts.run([&] { gradients_->finish_sparse(i); });
  }
  bucket.in_flight = false;
  attempts.throw_first();
}

// Another window opens: its result is added by synchronize().
void GradientReducer::set_aside(Bucket& bucket) {
  submit_waiting();
  if (bucket.call != nullptr || !bucket.sparse_calls.empty()) agree_on_setup();
  wait_for(bucket);
  Attempts attempts;
  attempts.run([&] {
    finish(bucket);
    gradients_->arrived(bucket.taken.dense);
  });
  gradients_->set_aside(bucket.params);
  attempts.throw_first();
}

std::size_t GradientReducer::next_finished(const std::vector<Bucket*>& left, bool overtake) const {
  constexpr Duration kFirstOneFirst = std::chrono::milliseconds(1);
  const auto over = [](const Bucket* bucket) {
    const auto done = [](const auto& call) { return call->wait_until(Clock::now()); };
    return (bucket->call == nullptr || done(bucket->call)) &&
           std::ranges::all_of(bucket->sparse_calls, done);
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
  if (synchronized_ || !active_) return;
  waits_at_once_ = Clock::now() - backward_ended_ < kAtOnce;
  // The others may wait for this rank at another place if something was not submitted here.
  const bool refused =
      std::ranges::any_of(buckets_, [](const auto& bucket) { return bucket->refusal != nullptr; });
  if (!refused && reduces_) {
    ask_for_views();
    agree_on_setup();
    agree_on_layout();
  }
  clip(ClipGradNorm::When::kBeforeReduction);
  Attempts attempts;
  for (const auto& bucket : buckets_) {
    if (bucket->given_back || (bucket->started && !has_open_window(*bucket))) continue;
    attempts.run([&] { start(*bucket); });
  }
  attempts.run([&] {
    const LoopOwnership::SuppressWakeup waits;
    submit_waiting();
  });
  std::vector<Bucket*> left;
  for (const auto& bucket : buckets_) {
    if (!bucket->given_back) left.push_back(bucket.get());
  }
  std::ranges::sort(left, {}, &Bucket::order);
  if (on_reduced == nullptr) {
    // First all waits, which may be interrupted.
    std::for_each(left.rbegin(), left.rend(), [this](const Bucket* each) { wait_for(*each); });
  }
  std::vector<std::size_t> arrived, all;
  const auto give_back = [&] {
    attempts.run([&] { gradients_->arrived(std::exchange(arrived, {})); });
    attempts.run([&] { gradients_->give_back(std::exchange(all, {})); });
  };
  while (!left.empty()) {  // all of them: then nothing is in flight any more
    const std::size_t next = next_finished(left, on_reduced != nullptr);
    Bucket& bucket = *left[next];
    wait_for(bucket);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
    attempts.run([&] {
      finish(bucket);
      append(arrived, bucket.taken.dense);
    });
    append(all, bucket.params);
    bucket.started = false;
    bucket.given_back = true;
    bucket.refusal = nullptr;
    if (on_reduced == nullptr) continue;
    give_back();
    if (!attempts.failed()) attempts.run([&] { on_reduced(bucket.params); });
  }
  if (on_reduced == nullptr) give_back();
  for (const auto& bucket : buckets_) bucket->given_back = false;
  clipped_before_ = false;
  driven_.clear();
  attempts.throw_first();
  look_who_is_trained();
  move_into_views();
  clip(ClipGradNorm::When::kAfterReduction);
  synchronized_ = true;
}

void GradientReducer::finish_in_flight() {
  submit_waiting();
  Attempts attempts;
  for (const auto& bucket : buckets_) {
    if (!bucket->in_flight) continue;
    agree_on_setup();
    wait_for(*bucket);
    attempts.run([&] {
      finish(*bucket);
      gradients_->arrived(bucket->taken.dense);
    });
  }
  attempts.throw_first();
}

// While backward() runs, or before gradients are submitted: then every rank asks before the others
// can leave the job. And not before the ranks agreed on the layout, so from the second step on.
void GradientReducer::ask_for_views() {
  if (!wants_views_ || agreed_layout_ != joins()) return;
  wants_views_ = false;
  const std::vector<bool> trained = gradients_->trained();
  const std::vector<std::int64_t> axes = gradients_->sparse_axes();
  std::vector<GradientParameter> places;
  viewed_.clear();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!trained[i] || axes[i] > 0) continue;
    viewed_.push_back(i);
    places.push_back(gradients_->parameters()[i]);
  }
  if (!places.empty()) views_.emplace(places, options_.process_set, places.front().name);
}

void GradientReducer::move_into_views() {
  if (!views_) return;
  const std::vector<Tensor> views = views_->take();
  views_.reset();
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].defined()) gradients_->move_to(viewed_[i], views[i]);
  }
}

void GradientReducer::clip(ClipGradNorm::When when) {
  if (!clips_ || options_.clip_grad_norm->when != when) return;
  if (when == ClipGradNorm::When::kBeforeReduction) {
    if (std::exchange(clipped_before_, true)) return;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!options_.average_aggregated_gradients || entries_[i].passes <= 1) continue;
      gradients_->scale(i, 1.0 / entries_[i].passes);
      entries_[i].passes = 1;
    }
  }
  gradients_->clip(options_.clip_grad_norm->max_norm);
}

std::string GradientReducer::in_flight() const {
  for (const auto& bucket : buckets_) {
    if (bucket->in_flight) return bucket->name;
  }
  return "";
}

std::vector<std::string> GradientReducer::call_names() const {
  std::vector<std::string> names;
  for (const auto& bucket : buckets_) names.push_back(bucket->call_name);
  return names;
}

void GradientReducer::drop_accumulated() {
  for (Entry& entry : entries_) entry.passes = 0;
  for (const auto& bucket : buckets_) {
    bucket->started = bucket->given_back = false;
    bucket->refusal = nullptr;
  }
  gradients_->drop();
}

// -- agreement

void GradientReducer::set_backward_passes_per_step(int passes) {
  if (shares_) agreement_->compare_passes(passes);
  passes_per_window_ = passes;
}

SetupAgreement::Setup GradientReducer::setup() const {
  SetupAgreement::Setup setup;
  for (const auto& bucket : buckets_) setup.buckets.push_back(bucket->name);
  setup.passes_per_step = passes_per_window_;
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

std::vector<std::int64_t> GradientReducer::layout() const {
  std::vector<std::int64_t> layout = gradients_->sparse_axes();
  layout.push_back(wants_views_ ? 1 : 0);
  return layout;
}

// Which gradients are sparse, and whether a rank wants views. A rank that has no gradient yet must
// send what the others do; one that had joined before its first step knows nothing of what they
// agreed.
void GradientReducer::agree_on_layout() {
  if (!reduces_ || agreed_layout_ == joins()) return;
  const std::uint64_t now = joins();
  std::vector<std::int64_t> agreed = agreement_->greatest("layout", layout());
  wants_views_ = agreed.back() == 1;
  agreed.pop_back();
  gradients_->set_sparse_axes(agreed);
  agreed_layout_ = now;
}

}  // namespace hvd
