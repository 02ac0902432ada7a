#include "horovod_cpp/distributed/gradients/gradient_reducer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/config/log.h"
#include "core/negotiate/process_sets.h"
#include "core/runtime/wake/submission_group.h"
#include "horovod_cpp/distributed/collectives/gpu_tensors.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd {
namespace {

// Other operations are not linear: what they make of a sum of passes depends on which are in it.
// And a gradient that is clipped first has to wait for all others.
bool starts_early(const DistributedOptions& options) {
  const bool linear = options.op == ReduceOp::kAverage || options.op == ReduceOp::kSum;
  const bool clips_first = options.clip_grad_norm &&
                           options.clip_grad_norm->when == ClipGradNorm::When::kBeforeReduction;
  return has_other_ranks(options) && linear && !clips_first;
}

ReductionContext context_of(std::shared_ptr<GradientAccess> gradients,
                            const DistributedOptions& options, const std::string& owner) {
  ReductionContext context;
  context.gradients = std::move(gradients);
  context.options = options;
  const auto world = options.process_set.world();
  if (const std::string set = engine::describe_set(options.process_set.id());
      !options.process_set.included() && world->is_first_of(owner + " without " + set)) {
    log(LogLevel::kWarning, owner + ": gradients are not reduced: rank " +
                                std::to_string(world->topology().rank) + " is not in " + set +
                                ", which has " + describe_ranks(options.process_set.ranks()));
  }
  if (!has_other_ranks(options)) return context;
  for (const GradientParameter& each : context.gradients->parameters()) {
    expect_served(*world, each.device, owner + ": parameter '" + each.name + "'");
  }
  context.over_ranks = options.op != ReduceOp::kAdasum;
  context.suffix = world->unique_suffix("optimizer", options.process_set.id());
  return context;
}

struct Known {
  Mutex mutex;
  std::map<const void*, std::weak_ptr<GradientClaims>> claims HVD_GUARDED_BY(mutex);
};

Known& known() {
  static Known& instance = *new Known;  // never ends: Python may end reducers after main()
  return instance;
}

void forget(const void* identity) {
  const MutexLock lock(known().mutex);
  const auto found = known().claims.find(identity);
  if (found != known().claims.end() && found->second.expired()) known().claims.erase(found);
}

}  // namespace

std::shared_ptr<GradientClaims> GradientClaims::of(const void* identity) {
  const MutexLock lock(known().mutex);
  std::weak_ptr<GradientClaims>& place = known().claims[identity];
  std::shared_ptr<GradientClaims> claims = place.lock();
  if (claims == nullptr) {
    claims.reset(new GradientClaims, [identity](GradientClaims* each) {
      delete each;
      forget(identity);
    });
    place = claims;
  }
  return claims;
}

void GradientClaims::remove(const GradientReducer* reducer) {
  std::erase_if(claims_, [reducer](const Claim& each) { return each.reducer == reducer; });
}

bool GradientClaims::is_left_to(const GradientReducer* reducer) const {
  for (auto each = claims_.rbegin(); each != claims_.rend() && each->reducer != reducer; ++each) {
    if (!each->reducer->held()) return false;
  }
  return true;
}

bool needs_reducer(const DistributedOptions& options) {
  return has_other_ranks(options) || options.average_aggregated_gradients || options.clip_grad_norm;
}

GradientReducer::GradientReducer(std::shared_ptr<GradientAccess> gradients,
                                 const DistributedOptions& options, const GradientBuckets& groups,
                                 std::string owner)
    : owner_(std::move(owner)),
      active_(needs_reducer(options)),
      context_(context_of(std::move(gradients), options, owner_)),
      schedule_(options.backward_passes_per_step, starts_early(options)),
      layout_(name(), context_, schedule_, buckets_),
      votes_(owner_, context_, schedule_, layout_) {
  if (!active_) return;
  const std::vector<GradientParameter>& parameters = context_.gradients->parameters();
  const std::size_t bucket_bytes = options.process_set.world()->options().bucket_bytes;
  add_buckets(!groups.empty()          ? given_buckets(parameters, groups, owner_)
              : options.num_groups > 0 ? equal_buckets(parameters, options.num_groups)
                                       : buckets_by_size(parameters, 0, bucket_bytes));
}

GradientReducer::~GradientReducer() {
  for (const Entry& entry : entries_) entry.claims->remove(this);
}

void GradientReducer::add_buckets(const GradientBuckets& buckets) {
  const std::vector<GradientParameter>& parameters = context_.gradients->parameters();
  const auto known = static_cast<std::ptrdiff_t>(entries_.size());
  context_.add_parameters();
  for (std::size_t i = entries_.size(); i < parameters.size(); ++i) {
    Entry& entry = entries_.emplace_back();
    entry.claims = GradientClaims::of(parameters[i].identity);
    entry.claims->add({this, i});
  }
  const std::vector<bool> trained = context_.gradients->trained();
  schedule_.add_parameters({trained.begin() + known, trained.end()});
  for (const std::vector<std::size_t>& params : buckets) {
    schedule_.add_bucket(params);
    buckets_.push_back(std::make_unique<GradientReduction>(context_, params));
  }
}

void GradientReducer::parameters_added() {
  if (!active_) return;
  add_buckets(buckets_by_size(context_.gradients->parameters(), entries_.size(),
                              context_.options.process_set.world()->options().bucket_bytes));
  layout_.parameters_added();
}

// -- during backward()

void GradientReducer::hold() {
  schedule_.hold();
  for (const Entry& entry : entries_) {
    for (const auto& [reducer, index] : entry.claims->all()) {
      if (reducer == this) break;
      reducer->is_given_way_ = true;
    }
  }
}

void GradientReducer::begin_step() {
  schedule_.begin_step();
  votes_.count_step();
  is_given_way_ = false;
}

void GradientReducer::before_gradient(std::size_t index) {
  if (!entries_[index].claims->is_left_to(this)) return;
  switch (schedule_.before_gradient(index)) {
    case ReductionSchedule::Before::kNothing:
      return;
    case ReductionSchedule::Before::kMakeRoom:
      return context_.gradients->make_room(index);
    case ReductionSchedule::Before::kCloseWindow:
      if (!context_.options.average_aggregated_gradients ||
          entries_[index].claims->newest() != this)
        return;
      context_.gradients->close_window(index, schedule_.close_window(index));
      entries_[index].has_windows = true;
  }
}

bool GradientReducer::count_gradient(std::size_t index) {
  if (!entries_[index].claims->is_left_to(this)) return false;
  clipped_before_ = false;
  ready_ = schedule_.on_gradient(index);
  // An older one waits for its synchronize(): the newer may be accumulating for its own.
  if (entries_[index].claims->newest() != this) ready_.reset();
  return ready_ || context_.options.compression.compressor() != nullptr;
}

void GradientReducer::start_ready() {
  if (const auto bucket = std::exchange(ready_, std::nullopt)) {
    start_first_round(*bucket);
    submit_soon();
  }
  if (context_.options.compression.compressor() == nullptr) return;
  for (const GradientReduction* each : first_round_) each->over();  // goes on with its next round
}

void GradientReducer::average(std::size_t index) {
  const int passes = schedule_.close_window(index);
  if (!context_.options.average_aggregated_gradients) return;
  if (passes > 1 || entries_[index].has_windows) context_.gradients->average(index, passes);
  entries_[index].has_windows = false;
}

void GradientReducer::start_first_round(std::size_t bucket) {
  const std::vector<std::size_t> members = schedule_.members(bucket);
  for (const std::size_t i : members) average(i);
  schedule_.take(bucket);
  first_round_.push_back(buckets_[bucket].get());
  start(*first_round_.back(), members);
}

void GradientReducer::start(GradientReduction& reduction, GradientAccess::Indices params) {
  Attempts attempts;
  attempts.run([&] { reduction.start(params); });
  if (reduction.new_sparse()) votes_.add_new_sparse();
  if (context_.over_ranks && !reduction.dense().empty()) {
    reduction.flag(&reduction == votes_.carrier());  // until votes_ know better
    waiting_.push_back(&reduction);
  }
  attempts.throw_first();
}

// Each submission may wake the coordinator's thread, which takes the core from backward(). Those at
// its end wake no thread if the program does as in the step before, and waits for them at once.
void GradientReducer::submit_soon() {
  backward_ended_ = TimePoint::max();
  // Gradients go together once they fill a batch: if each bucket of a model with many small groups
  // went alone, the thread would wake for each.
  const std::size_t batch = context_.options.process_set.world()->options().bucket_bytes;
  std::size_t bytes = 0;
  const GradientReduction* const kept = waits_at_once_ ? votes_.carrier() : nullptr;
  for (const GradientReduction* each : waiting_) {
    if (each != kept) bytes += each->dense_bytes();
  }
  if (bytes >= batch) return submit_waiting();
  context_.gradients->after_backward([this, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired() || in_flight().empty()) return;  // by DistributedDataParallel's own
    std::optional<engine::SubmissionGroup> group;
    if (waits_at_once_) group.emplace();
    submit_waiting();
    layout_.ask_ahead();
    backward_ended_ = Clock::now();
  });
}

void GradientReducer::submit_waiting(bool all) {
  std::vector<GradientReduction*> waiting = std::exchange(waiting_, {});
  GradientReduction* const carrier = all || !waits_at_once_ ? nullptr : votes_.carrier();
  if (std::erase(waiting, carrier) > 0) waiting_.push_back(carrier);
  Attempts attempts;
  for (GradientReduction* reduction : waiting) attempts.run([&] { reduction->submit(); });
  attempts.throw_first();
}

}  // namespace hvd
