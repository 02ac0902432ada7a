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
#include "horovod_cpp/distributed/gradients/attempts.h"
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
      clips_(options.clip_grad_norm.has_value()),
      active_(has_work(options)),
      passes_per_window_(options.backward_passes_per_step) {
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

void GradientReducer::add_buckets(const GradientBuckets& buckets) {
  const std::vector<GradientParameter>& parameters = gradients_->parameters();
  const auto compressor = reduces_ ? options_.compression.compressor() : nullptr;
  const std::vector<std::int64_t> sparse_axes = gradients_->sparse_axes();
  for (std::size_t i = entries_.size(); i < parameters.size(); ++i) {
    const GradientParameter& each = parameters[i];
    Entry& entry = entries_.emplace_back();
    if (sparse_axes[i] > 0) continue;  // never compressed, and the whole of it may be large
    if (compressor) entry.compressor = compressor->for_tensor(each.name, each.shape, each.dtype);
    if (reduces_ && options_.compression.wire() == WireFormat::kInt8) {
      entry.residual = Tensor::zeros(each.shape, DType::kF32, each.device);
    }
  }
  for (const std::vector<std::size_t>& params : buckets) {
    auto bucket = std::make_unique<Bucket>();
    bucket->name = group_name(parameters[params.front()].name, params.size());
    bucket->call_name = bucket->name + suffix_;
    auto labels = std::make_shared<CallLabels>();
    for (const std::size_t i : params) {
      labels->names.push_back(parameters[i].name);
      entries_[i].bucket = buckets_.size();
    }
    bucket->labels = std::move(labels);
    bucket->params = params;
    buckets_.push_back(std::move(bucket));
  }
  look_who_is_trained();
}

void GradientReducer::parameters_added() {
  if (!active_) return;
  add_buckets(buckets_by_size(gradients_->parameters(), entries_.size(),
                              options_.process_set.world()->options().bucket_bytes));
  agreed_setup_.reset();
  agreed_layout_.reset();
  is_first_step_ = true;
}

// Parameters may have been frozen or thawed.
void GradientReducer::look_who_is_trained() {
  const std::vector<bool> trained = gradients_->trained();
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].trained = trained[i];
}

// -- during backward()

void GradientReducer::before_gradient(std::size_t index) {
  Bucket& bucket = *buckets_[entries_[index].bucket];
  if (bucket.in_flight) set_aside(bucket);
}

void GradientReducer::on_gradient(std::size_t index) {
  synchronized_ = clipped_before_ = false;
  ++entries_[index].passes;
  const bool clips_first =
      clips_ && options_.clip_grad_norm->when == ClipGradNorm::When::kBeforeReduction;
  if (holds_ > 0 || clips_first) return;
  if (!reduces_ && !options_.average_aggregated_gradients) return;
  Bucket& bucket = *buckets_[entries_[index].bucket];
  if (is_full(bucket)) {
    start(bucket);
    submit_soon();
  }
  drive();
}

bool GradientReducer::is_full(const Bucket& bucket) const {
  const auto lacks = [this](std::size_t i) { return entries_[i].passes < passes_per_window_; };
  if (std::ranges::any_of(bucket.params,
                          [&](std::size_t i) { return entries_[i].trained && lacks(i); })) {
    return false;
  }
  if (std::ranges::none_of(bucket.params, lacks)) return true;
  const std::vector<bool> trained = gradients_->trained();  // some may have thawed
  return std::ranges::none_of(bucket.params, [&](std::size_t i) { return trained[i] && lacks(i); });
}

bool GradientReducer::has_open_window(const Bucket& bucket) const {
  return std::ranges::any_of(bucket.params,
                             [this](std::size_t i) { return entries_[i].passes > 0; });
}

void GradientReducer::start(Bucket& bucket) {
  if (std::ranges::find(waiting_, &bucket) != waiting_.end()) submit_waiting();
  if (bucket.in_flight) set_aside(bucket);
  for (const std::size_t i : bucket.params) {
    const int passes = std::exchange(entries_[i].passes, 0);
    if (options_.average_aggregated_gradients && passes > 1) gradients_->scale(i, 1.0 / passes);
  }
  bucket.started = bucket.in_flight = true;
  bucket.given_back = false;
  bucket.order = ++starts_;
  bucket.taken = gradients_->take(bucket.params, reduces_);
  if (reduces_ && !bucket.taken.dense.empty()) {
    waiting_.push_back(&bucket);
    for (const std::size_t i : bucket.taken.dense) {
      waiting_bytes_ += gradients_->parameters()[i].bytes();
    }
  }
  start_sparse(bucket);
}

void GradientReducer::start_sparse(Bucket& bucket) {
  for (const std::size_t i : bucket.taken.sparse) {
    const std::string within =
        bucket.params.size() > 1 ? "." + gradients_->parameters()[i].name : "";
    try {
      auto call = gradients_->start_sparse(i, {.op = options_.op,
                                               .name = bucket.call_name + within,
                                               .process_set = options_.process_set});
      if (call != nullptr) bucket.sparse_calls.push_back(std::move(call));
    } catch (...) {
      bucket.refusal = std::current_exception();
      throw;
    }
  }
}

// Each submission may wake the coordinator's thread, which takes the core from backward(). Those at
// its end wake nobody if the program does as in the step before, and waits for them at once.
void GradientReducer::submit_soon() {
  if (waiting_bytes_ >= kTogether && bytes_to_come() >= kWorthABatch) return submit_waiting();
  gradients_->after_backward([this, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired() || synchronized_) return;  // by DistributedDataParallel's own
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
  for (const auto& bucket : buckets_) {
    if (bucket->started) continue;
    for (const std::size_t i : bucket->params) bytes += gradients_->parameters()[i].bytes();
  }
  return bytes;
}

void GradientReducer::submit_waiting() {
  const std::vector<Bucket*> waiting = std::exchange(waiting_, {});
  waiting_bytes_ = 0;
  Attempts attempts;
  for (Bucket* bucket : waiting) {
    std::optional<LoopOwnership::SuppressWakeup> quiet;  // the last one rings for all
    if (bucket != waiting.back()) quiet.emplace();
    attempts.run([&] { submit(*bucket); });
  }
  attempts.throw_first();
}

void GradientReducer::submit(Bucket& bucket) {
  std::vector<AllreduceTensor> tensors;
  tensors.reserve(bucket.taken.dense.size());
  for (std::size_t place = 0; place < bucket.taken.dense.size(); ++place) {
    const Tensor& tensor = bucket.taken.tensors[place];
    const Entry& entry = entries_[bucket.taken.dense[place]];
    tensors.push_back({tensor, tensor, entry.residual, entry.compressor});
  }
  AllreduceOptions call;
  call.op = options_.op;
  call.name = bucket.call_name;
  call.prescale_factor = 1 / options_.gradient_predivide_factor;
  call.postscale_factor = options_.gradient_predivide_factor;
  call.compression = options_.compression;
  call.process_set = options_.process_set;
  try {
    bucket.call = start_allreduce(tensors, call, bucket.labels);
  } catch (...) {
    bucket.refusal = std::current_exception();
    throw;
  }
  if (options_.compression.compressor() != nullptr) driven_.push_back(bucket.call);
}

void GradientReducer::drive() {
  std::erase_if(driven_, [](const std::shared_ptr<CallInFlight>& call) {
    return call->wait_until(Clock::now());
  });
}

}  // namespace hvd
