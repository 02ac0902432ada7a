#include "horovod_cpp/dist/gradient_reducer.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/negotiate/call_name.h"
#include "core/runtime/driver_seat.h"
#include "horovod_cpp/autograd/after_backward.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/dist/gpu_tensors.h"
#include "horovod_cpp/dist/gradient_rows.h"
#include "horovod_cpp/dist/world.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd {
namespace {

// Gradients wait for each other until they are this many bytes: what one batch holds by default.
constexpr std::size_t kTogether = 1 << 20;
// If fewer are still to come, those that are there wait for them.
constexpr std::size_t kWorthABatch = kTogether / 16;
// From the end of backward() to step().
constexpr Duration kAtOnce = std::chrono::microseconds(100);

std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype());
}

bool reduces(const DistributedOptions& options) {
  return options.op != ReduceOp::kAdasum && options.process_set.included() &&
         options.process_set.size() > 1;
}

}  // namespace

GradientReducer::GradientReducer(const NamedTensors& parameters, const DistributedOptions& options,
                                 std::string owner)
    : options_(options),
      owner_(std::move(owner)),
      reduces_(reduces(options)),
      passes_per_window_(options.backward_passes_per_step) {
  // Else there is nothing to do between backward() and the wrapped optimizer.
  if (!reduces_ && !options_.average_aggregated_gradients && !options_.clip_grad_norm) return;
  check_owners(parameters);
  if (reduces_) {
    check_devices(parameters);
    suffix_ = options_.process_set.world()->unique_suffix("optimizer", options_.process_set.id());
  }
  make_entries(parameters);
  for (std::vector<Entry*>& entries : divide_entries()) add_bucket(std::move(entries));
  if (!reduces_ || !options.gradient_as_bucket_view || !options.compression.is_none()) return;
  std::vector<Tensor> params;
  for (const auto& entry : entries_) {
    if (!entry->by_rows) params.push_back(entry->param);
  }
  if (!params.empty()) views_ = {params, options_.process_set, entries_.front()->name};
}

GradientReducer::~GradientReducer() {
  for (const auto& entry : entries_) {
    entry->remove_hook();
    entry->param.record()->reduced_by.clear();
    if (entry->view.defined() && grad_memory(entry->param).is(entry->view)) {
      set_grad_memory(entry->param, {});
    }
  }
}

void GradientReducer::check_owners(const NamedTensors& parameters) const {
  for (const auto& [name, param] : parameters) {
    const std::string other = param.record() == nullptr ? "" : param.record()->reduced_by;
    if (other.empty() || other == owner_) continue;
    throw InvalidArgumentError(owner_ + ": the gradient of '" + name + "' is reduced by a " +
                               other + " already; use one of the two");
  }
}

void GradientReducer::check_devices(const NamedTensors& parameters) const {
  const auto world = options_.process_set.world();
  for (const auto& [name, param] : parameters) {
    if (param.requires_grad()) {
      expect_served(*world, param.device(), owner_ + ": parameter '" + name + "'");
    }
  }
}

void GradientReducer::make_entries(const NamedTensors& parameters) {
  const auto compressor = options_.compression.compressor();
  for (const auto& [name, param] : parameters) {
    if (!param.requires_grad()) continue;
    auto entry = std::make_unique<Entry>();
    entry->name = name;
    entry->param = param;
    entry->param.record()->reduced_by = owner_;
    set_grad_memory(entry->param, {});  // of an optimizer before
    entry->by_rows = !options_.sparse_as_dense && travels_by_rows(param, options_.op);
    if (reduces_ && !entry->by_rows && compressor != nullptr) {
      entry->compressor = compressor->for_tensor(name, param.shape(), param.dtype());
    }
    if (reduces_ && !entry->by_rows && options_.compression.wire() == WireFormat::kInt8) {
      entry->residual = Tensor::zeros(param.shape(), DType::kF32, param.device());
    }
    entries_.push_back(std::move(entry));
  }
}

void GradientReducer::add_bucket(std::vector<Entry*> entries) {
  auto bucket = std::make_unique<Bucket>();
  bucket->name = group_name(entries.front()->name, entries.size());
  auto labels = std::make_shared<CallLabels>();
  for (const Entry* entry : entries) labels->names.push_back(entry->name);
  bucket->labels = std::move(labels);
  bucket->call_name = bucket->name + suffix_;
  bucket->entries = std::move(entries);
  for (Entry* entry : bucket->entries) {
    entry->remove_hook = entry->param.register_hook(
        [this, entry, raw = bucket.get()](const Tensor&) { on_gradient(*entry, *raw); });
  }
  buckets_.push_back(std::move(bucket));
}

void GradientReducer::on_gradient(Entry& entry, Bucket& bucket) {
  synchronized_ = false;
  ++entry.passes;
  const bool clips_first = options_.clip_grad_norm &&
                           options_.clip_grad_norm->when == ClipGradNorm::When::kBeforeReduction;
  if (holds_ > 0 || clips_first) return;
  if (!reduces_ && !options_.average_aggregated_gradients) return;
  const bool full = std::all_of(bucket.entries.begin(), bucket.entries.end(),
                                [&](Entry* each) { return each->passes >= passes_per_window_; });
  if (full) {
    start(bucket);
    submit_soon();
  }
  drive();
}

// Each submission may wake the coordinator's thread, which takes the core from backward(). Those at
// its end wake nobody if the program does as in the step before, and waits for them at once.
void GradientReducer::submit_soon() {
  if (waiting_bytes_ >= kTogether && bytes_to_come() >= kWorthABatch) return submit_waiting();
  if (waiting_.empty()) return;
  autograd::after_backward(this, [this, alive = std::weak_ptr<void>(alive_)] {
    if (alive.expired()) return;
    std::optional<DriverSeat::WaitsAtOnce> waits;
    if (waits_at_once_) waits.emplace();
    submit_waiting();
    backward_ended_ = Clock::now();
  });
}

// Of the gradients that backward() has not finished yet.
std::size_t GradientReducer::bytes_to_come() const {
  std::size_t bytes = 0;
  for (const auto& bucket : buckets_) {
    for (const Entry* entry : bucket->entries) {
      if (!bucket->started) bytes += bytes_of(entry->param);
    }
  }
  return bytes;
}

void GradientReducer::submit_waiting() {
  const std::vector<Bucket*> waiting = std::exchange(waiting_, {});
  waiting_bytes_ = 0;
  std::exception_ptr first_error;
  for (Bucket* bucket : waiting) {
    std::optional<DriverSeat::WaitsAtOnce> quiet;  // the last one rings for all
    if (bucket != waiting.back()) quiet.emplace();
    try {
      submit(*bucket);
    } catch (...) {
      if (first_error == nullptr) first_error = std::current_exception();
    }
  }
  if (first_error != nullptr) std::rethrow_exception(first_error);
}

void GradientReducer::drive() {
  std::erase_if(driven_, [](const std::shared_ptr<CallInFlight>& call) {
    return call->wait_until(Clock::now());
  });
}

Tensor GradientReducer::take_gradient(Entry& entry) {
  const NoGradGuard no_grad;
  Tensor gradient = entry.param.grad();
  const int passes = std::exchange(entry.passes, 0);
  // The view is taken until the next synchronize(): meanwhile backward() must not write into it.
  const bool into_view = entry.view.defined() && !entry.reduced.is(entry.view);
  set_grad_memory(entry.param, {});
  if (!gradient.defined()) {
    // Every rank reduces the same names; alone, a parameter without a gradient is skipped.
    if (into_view) return Tensor(entry.view).zero_();
    return reduces_ ? zeros_like(entry.param) : gradient;
  }
  entry.param.set_grad({});
  if (into_view && !gradient.is(entry.view)) {  // the program put its own tensor there
    gradient = Tensor(entry.view).copy_(gradient);
  }
  if (!gradient.is_contiguous()) gradient = gradient.contiguous();
  if (options_.average_aggregated_gradients && passes > 1) gradient.mul_(1.0 / passes);
  return gradient;
}

void GradientReducer::start(Bucket& bucket) {
  if (std::ranges::find(waiting_, &bucket) != waiting_.end()) submit_waiting();
  finish(bucket);
  if (bucket.entries.front()->by_rows) return start_rows(bucket);
  for (Entry* entry : bucket.entries) bucket.gradients.push_back(take_gradient(*entry));
  bucket.started = true;
  bucket.order = ++starts_;
  if (!reduces_) {
    finish(bucket);
    return;
  }
  waiting_.push_back(&bucket);
  for (const Tensor& gradient : bucket.gradients) waiting_bytes_ += bytes_of(gradient);
}

void GradientReducer::submit(Bucket& bucket) {
  std::vector<AllreduceTensor> tensors;
  for (std::size_t i = 0; i < bucket.entries.size(); ++i) {
    const Tensor& gradient = bucket.gradients[i];
    tensors.push_back(
        {gradient, gradient, bucket.entries[i]->residual, bucket.entries[i]->compressor});
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

void GradientReducer::finish(Bucket& bucket) {
  if (bucket.rows) return finish_rows(bucket);
  const std::shared_ptr<CallInFlight> call = std::exchange(bucket.call, nullptr);
  std::exception_ptr error = bucket.refusal;
  try {
    if (call != nullptr) call->result({});
  } catch (...) {
    error = std::current_exception();
  }
  const std::vector<Tensor> gradients = std::exchange(bucket.gradients, {});
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Tensor& reduced = bucket.entries[i]->reduced;
    if (!reduced.defined()) {
      reduced = gradients[i];
    } else if (gradients[i].defined()) {
      reduced.add_(gradients[i]);
    }
  }
  if (error != nullptr) std::rethrow_exception(error);
}

std::size_t GradientReducer::next_finished(const std::vector<Bucket*>& left, bool overtake) const {
  constexpr Duration kPatience = std::chrono::milliseconds(1);  // with the one started first
  const auto over = [](const Bucket* bucket) {
    return bucket->call == nullptr || bucket->call->wait_until(Clock::now());
  };
  if (!overtake) return left.size() - 1;
  auto next = left.begin();
  while (!over(*next)) {
    next = std::find_if(left.begin() + 1, left.end(), over);
    if (next != left.end() || left.front()->call->wait_until(Clock::now() + kPatience)) break;
    next = left.begin();
  }
  if (next == left.end()) next = left.begin();
  return static_cast<std::size_t>(next - left.begin());
}

void GradientReducer::give_back(Bucket& bucket) {
  for (Entry* entry : bucket.entries) {
    Tensor reduced = std::exchange(entry->reduced, {});
    if (reduced.defined()) entry->param.set_grad(std::move(reduced));
    for (const RowGradient& part : std::exchange(entry->reduced_rows, {})) {
      add_row_gradient(entry->param, part.rows, part.values);
    }
    set_grad_memory(entry->param, entry->view);
  }
  bucket.started = false;
  bucket.refusal = nullptr;
}

void GradientReducer::move_into_arena() {
  const std::vector<Tensor> views = views_.take();
  auto view = views.begin();
  for (const auto& entry : entries_) {
    if (view == views.end()) return;
    if (entry->by_rows) continue;
    entry->view = *view++;
    if (!entry->view.defined()) continue;
    set_grad_memory(entry->param, entry->view);
    const Tensor gradient = entry->param.grad();
    if (gradient.defined()) entry->param.set_grad(Tensor(entry->view).copy_(gradient));
  }
}

void GradientReducer::synchronize(const OnReduced& on_reduced) {
  if (synchronized_) return;
  waits_at_once_ = Clock::now() - backward_ended_ < kAtOnce;
  clip(ClipGradNorm::When::kBeforeReduction);
  std::exception_ptr first_error;
  const auto attempt = [&](auto&& action) {
    try {
      action();
    } catch (...) {
      if (first_error == nullptr) first_error = std::current_exception();
    }
  };
  for (const auto& bucket : buckets_) {
    const bool open = std::any_of(bucket->entries.begin(), bucket->entries.end(),
                                  [](Entry* entry) { return entry->passes > 0; });
    if (open || !bucket->started) attempt([&] { start(*bucket); });
  }
  attempt([&] {
    const DriverSeat::WaitsAtOnce waits;
    submit_waiting();
  });
  std::vector<Bucket*> left;
  for (const auto& bucket : buckets_) left.push_back(bucket.get());
  std::sort(left.begin(), left.end(),
            [](const Bucket* a, const Bucket* b) { return a->order < b->order; });
  while (!left.empty()) {  // all of them: then nothing is in flight any more
    std::size_t next = 0;
    attempt([&] { next = next_finished(left, on_reduced != nullptr); });
    Bucket& bucket = *left[next];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
    attempt([&] { finish(bucket); });
    give_back(bucket);
    if (on_reduced == nullptr || first_error != nullptr) continue;
    std::vector<Tensor> params;
    for (const Entry* entry : bucket.entries) params.push_back(entry->param);
    attempt([&] { on_reduced(params); });
  }
  driven_.clear();
  if (first_error != nullptr) std::rethrow_exception(first_error);
  move_into_arena();
  clip(ClipGradNorm::When::kAfterReduction);
  synchronized_ = true;
}

void GradientReducer::clip(ClipGradNorm::When when) {
  if (!options_.clip_grad_norm || options_.clip_grad_norm->when != when) return;
  std::vector<Tensor> params;
  for (const auto& entry : entries_) {
    params.push_back(entry->param);
    const bool averages = when == ClipGradNorm::When::kBeforeReduction &&
                          options_.average_aggregated_gradients && entry->passes > 1;
    if (!averages) continue;
    gradient_values(entry->param).mul_(1.0 / entry->passes);
    entry->passes = 1;
  }
  optim::clip_grad_norm_(params, options_.clip_grad_norm->max_norm);
}

std::string GradientReducer::in_flight() const {
  for (const auto& bucket : buckets_) {
    if (bucket->started) return bucket->name;
  }
  return "";
}

void GradientReducer::drop_accumulated() {
  for (const auto& entry : entries_) entry->passes = 0;
}

}  // namespace hvd
