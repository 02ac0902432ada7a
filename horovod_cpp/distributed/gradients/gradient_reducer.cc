#include "horovod_cpp/distributed/gradients/gradient_reducer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/status.h"
#include "core/negotiate/messages/call_name.h"
#include "core/runtime/wake/loop_ownership.h"
#include "horovod_cpp/distributed/collectives/allreduce_call.h"
#include "horovod_cpp/distributed/collectives/gpu_tensors.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/tensor/creation.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd {
namespace {

// Gradients wait for each other until they are this many bytes: what one batch holds by default.
constexpr std::size_t kTogether = 1 << 20;
// If fewer are still to come, those that are there wait for them.
constexpr std::size_t kWorthABatch = kTogether / 16;

bool shares(const DistributedOptions& options) {
  return options.process_set.included() && options.process_set.size() > 1;
}

// Other operations are not linear: what they make of a sum of passes depends on which are in it.
// And a gradient that is clipped first has to wait for all others.
bool starts_early(const DistributedOptions& options) {
  const bool linear = options.op == ReduceOp::kAverage || options.op == ReduceOp::kSum;
  const bool clips_first = options.clip_grad_norm &&
                           options.clip_grad_norm->when == ClipGradNorm::When::kBeforeReduction;
  return shares(options) && linear && !clips_first;
}

}  // namespace

bool GradientReducer::has_work(const DistributedOptions& options) {
  return shares(options) || options.average_aggregated_gradients || options.clip_grad_norm;
}

GradientReducer::GradientReducer(std::shared_ptr<GradientAccess> gradients,
                                 const DistributedOptions& options, const GradientBuckets& groups,
                                 std::string owner)
    : gradients_(std::move(gradients)),
      options_(options),
      owner_(std::move(owner)),
      shares_(shares(options)),
      reduces_(shares_ && options.op != ReduceOp::kAdasum),
      active_(has_work(options)),
      schedule_(options.backward_passes_per_step, starts_early(options)),
      compares_options_(options.process_set.world()->options().check_options != "0") {
  if (!active_) return;
  const std::vector<GradientParameter>& parameters = gradients_->parameters();
  const auto world = options_.process_set.world();
  if (shares_) {
    for (const GradientParameter& each : parameters) {
      expect_served(*world, each.device, owner_ + ": parameter '" + each.name + "'");
    }
    suffix_ = world->unique_suffix("optimizer", options_.process_set.id());
    agreement_.emplace(owner_ + suffix_, options_.process_set);
    wants_views_ = reduces_ && options_.gradient_as_bucket_view && options_.compression.is_none();
  }
  add_buckets(!groups.empty() ? given_buckets(parameters, groups, owner_)
              : options_.num_groups > 0
                  ? equal_buckets(parameters, options_.num_groups)
                  : buckets_by_size(parameters, 0, world->options().bucket_bytes));
}

GradientReducer::~GradientReducer() {
  for (const Entry& entry : entries_) entry.claims->remove(this);
}

void GradientReducer::add_buckets(const GradientBuckets& buckets) {
  const std::vector<GradientParameter>& parameters = gradients_->parameters();
  const auto compressor = reduces_ ? options_.compression.compressor() : nullptr;
  const std::vector<std::int64_t> sparse_axes = gradients_->sparse_axes();
  const auto known = static_cast<std::ptrdiff_t>(entries_.size());
  for (std::size_t i = entries_.size(); i < parameters.size(); ++i) {
    const GradientParameter& each = parameters[i];
    Entry& entry = entries_.emplace_back();
    entry.claims = GradientClaims::of(each.identity);
    entry.claims->add({this, i});
    if (sparse_axes[i] > 0) continue;  // never compressed, and the whole of it may be large
    if (compressor) entry.compressor = compressor->for_tensor(each.name, each.shape, each.dtype);
    if (reduces_ && options_.compression.wire() == WireFormat::kInt8) {
      entry.residual = Tensor::zeros(each.shape, DType::kF32, each.device);
    }
  }
  const std::vector<bool> trained = gradients_->trained();
  schedule_.add_parameters({trained.begin() + known, trained.end()});
  for (const std::vector<std::size_t>& params : buckets) {
    schedule_.add_bucket(params);
    buckets_.push_back(reduction_of(params, ""));
  }
}

std::unique_ptr<GradientReducer::Reduction> GradientReducer::reduction_of(
    std::vector<std::size_t> params, const std::string& round) const {
  const std::vector<GradientParameter>& parameters = gradients_->parameters();
  auto labels = std::make_shared<CallLabels>();
  for (const std::size_t i : params) labels->names.push_back(parameters[i].name);
  const std::string name = group_name(parameters[params.front()].name + round, params.size());
  return std::make_unique<Reduction>(Reduction{.name = name,
                                               .call_name = name + suffix_,
                                               .labels = std::move(labels),
                                               .params = std::move(params)});
}

void GradientReducer::parameters_added() {
  if (!active_) return;
  add_buckets(buckets_by_size(gradients_->parameters(), entries_.size(),
                              options_.process_set.world()->options().bucket_bytes));
  agreed_setup_.reset();
  agreed_layout_.reset();
  is_first_step_ = true;
}

// -- during backward()

bool GradientReducer::is_newest(std::size_t index) const {
  return entries_[index].claims->newest() == this;
}

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
  is_given_way_ = false;
}

void GradientReducer::before_gradient(std::size_t index) {
  if (!entries_[index].claims->is_left_to(this)) return;
  switch (schedule_.before_gradient(index)) {
    case ReductionSchedule::Before::kNothing:
      return;
    case ReductionSchedule::Before::kMakeRoom:
      return gradients_->make_room(index);
    case ReductionSchedule::Before::kCloseWindow:
      if (!options_.average_aggregated_gradients || !is_newest(index)) return;
      gradients_->close_window(index, schedule_.close_window(index));
      entries_[index].has_windows = true;
  }
}

void GradientReducer::on_gradient(std::size_t index) {
  if (!entries_[index].claims->is_left_to(this)) return;
  clipped_before_ = false;
  const auto bucket = schedule_.on_gradient(index);
  // An older one waits for its synchronize(): the newer may be accumulating for its own.
  if (bucket && is_newest(index)) {
    start_first_round(*bucket);
    submit_soon();
  }
  drive();
}

void GradientReducer::average(std::size_t index) {
  const int passes = schedule_.close_window(index);
  if (!options_.average_aggregated_gradients) return;
  if (passes > 1 || entries_[index].has_windows) gradients_->average(index, passes);
  entries_[index].has_windows = false;
}

void GradientReducer::start_first_round(std::size_t bucket) {
  const std::vector<std::size_t> members = schedule_.members(bucket);
  for (const std::size_t i : members) average(i);
  schedule_.take(bucket);
  start(*buckets_[bucket], members);
}

void GradientReducer::start(Reduction& reduction, GradientAccess::Indices params) {
  reduction.in_flight = true;
  reduction.order = ++starts_;
  reduction.taken = gradients_->take(params, reduces_);
  if (reduces_ && !reduction.taken.dense.empty()) {
    waiting_.push_back(&reduction);
    for (const std::size_t i : reduction.taken.dense) {
      waiting_bytes_ += gradients_->parameters()[i].bytes();
    }
  }
  start_sparse(reduction);
}

void GradientReducer::start_sparse(Reduction& reduction) {
  for (const std::size_t i : reduction.taken.sparse) {
    const std::string within =
        reduction.params.size() > 1 ? "." + gradients_->parameters()[i].name : "";
    try {
      auto call = gradients_->start_sparse(i, {.op = options_.op,
                                               .name = reduction.call_name + within,
                                               .process_set = options_.process_set});
      if (call != nullptr) reduction.sparse_calls.push_back(std::move(call));
    } catch (...) {
      reduction.refusal = std::current_exception();
      throw;
    }
  }
}

// Each submission may wake the coordinator's thread, which takes the core from backward(). Those at
// its end wake nobody if the program does as in the step before, and waits for them at once.
void GradientReducer::submit_soon() {
  if (waiting_bytes_ >= kTogether && bytes_to_come() >= kWorthABatch) return submit_waiting();
  gradients_->after_backward([this, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired() || in_flight().empty()) return;  // by DistributedDataParallel's own
    std::optional<LoopOwnership::SuppressWakeup> waits;
    if (waits_at_once_) waits.emplace();
    submit_waiting();
    ask_ahead();
    backward_ended_ = Clock::now();
  });
}

// Of the gradients that backward() has not finished yet.
std::size_t GradientReducer::bytes_to_come() const {
  std::size_t bytes = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (schedule_.taken(b)) continue;
    for (const std::size_t i : buckets_[b]->params) bytes += gradients_->parameters()[i].bytes();
  }
  return bytes;
}

void GradientReducer::submit_waiting() {
  const std::vector<Reduction*> waiting = std::exchange(waiting_, {});
  waiting_bytes_ = 0;
  Attempts attempts;
  for (Reduction* reduction : waiting) {
    std::optional<LoopOwnership::SuppressWakeup> quiet;  // the last one rings for all
    if (reduction != waiting.back()) quiet.emplace();
    attempts.run([&] { submit(*reduction); });
  }
  attempts.throw_first();
}

void GradientReducer::submit(Reduction& reduction) {
  std::vector<AllreduceTensor> tensors;
  tensors.reserve(reduction.taken.dense.size());
  for (std::size_t place = 0; place < reduction.taken.dense.size(); ++place) {
    const Tensor& tensor = reduction.taken.tensors[place];
    const Entry& entry = entries_[reduction.taken.dense[place]];
    tensors.push_back({tensor, tensor, entry.residual, entry.compressor});
  }
  AllreduceOptions call;
  call.op = options_.op;
  call.name = reduction.call_name;
  call.prescale_factor = 1 / options_.gradient_predivide_factor;
  call.postscale_factor = options_.gradient_predivide_factor;
  call.compression = options_.compression;
  call.process_set = options_.process_set;
  try {
    reduction.call = start_allreduce(tensors, call, reduction.labels);
  } catch (...) {
    reduction.refusal = std::current_exception();
    throw;
  }
  if (options_.compression.compressor() != nullptr) driven_.push_back(reduction.call);
}

void GradientReducer::drive() {
  std::erase_if(driven_, [](const std::shared_ptr<CallInFlight>& call) {
    return call->wait_until(Clock::now());
  });
}

}  // namespace hvd
