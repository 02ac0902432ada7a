#include "horovod_cpp/distributed/gradients/gradient_reduction.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/negotiate/messages/request.h"
#include "horovod_cpp/tensor/creation.h"

namespace hvd {
namespace {

std::string group_of(const GradientAccess& gradients, const std::vector<std::size_t>& params,
                     const std::string& round) {
  return engine::group_name(gradients.parameters()[params.front()].name + round, params.size());
}

}  // namespace

GradientBuckets buckets_by_size(const std::vector<GradientParameter>& parameters, std::size_t first,
                                std::size_t bytes) {
  GradientBuckets buckets;
  std::size_t filled = 0;
  for (std::size_t i = first; i < parameters.size(); ++i) {
    const GradientParameter& each = parameters[i];
    if (buckets.empty() || filled + each.bytes() > bytes ||
        each.device != parameters[i - 1].device) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(i);
    filled += each.bytes();
  }
  return buckets;
}

GradientBuckets equal_buckets(const std::vector<GradientParameter>& parameters, int count) {
  const std::size_t size = parameters.size();
  const std::size_t buckets = std::min(static_cast<std::size_t>(count), size);
  GradientBuckets result(buckets);
  for (std::size_t i = 0; i < size; ++i) result[i * buckets / size].push_back(i);
  return result;
}

GradientBuckets given_buckets(const std::vector<GradientParameter>& parameters,
                              const GradientBuckets& groups, const std::string& owner) {
  std::vector<bool> placed(parameters.size());
  GradientBuckets buckets;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t i : groups[g]) {
      if (placed.at(i)) {
        throw InvalidArgumentError(owner + ": groups[" + std::to_string(g) + "] has parameter '" +
                                   parameters[i].name + "', which is in another group already");
      }
      placed[i] = true;
    }
    if (!groups[g].empty()) buckets.push_back(groups[g]);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!placed[i]) buckets.push_back({i});
  }
  return buckets;
}

bool has_other_ranks(const DistributedOptions& options) {
  return options.process_set.included() && options.process_set.size() > 1;
}

void ReductionContext::add_parameters() {
  const std::vector<GradientParameter>& parameters = gradients->parameters();
  const std::vector<std::int64_t> sparse_axes = gradients->sparse_axes();
  const auto factory = over_ranks ? options.compression.compressor() : nullptr;
  const bool keeps_residuals = over_ranks && options.compression.wire() == WireFormat::kInt8;
  for (std::size_t i = compressed.size(); i < parameters.size(); ++i) {
    Compressed& kept = compressed.emplace_back();
    if (sparse_axes[i] > 0) continue;  // never compressed, and the whole of it may be large
    const GradientParameter& each = parameters[i];
    if (factory) kept.compressor = factory->for_tensor(each.name, each.shape, each.dtype);
    if (keeps_residuals) kept.residual = Tensor::zeros(each.shape, DType::kF32, each.device);
  }
}

GradientReduction::GradientReduction(const ReductionContext& context,
                                     std::vector<std::size_t> params, const std::string& round)
    : context_(context),
      params_(std::move(params)),
      name_(group_of(*context.gradients, params_, round)),
      call_name_(name_ + context.suffix) {
  auto labels = std::make_shared<engine::CallLabels>();
  for (const std::size_t i : params_) {
    labels->names.push_back(context.gradients->parameters()[i].name);
    bytes_ += context.gradients->parameters()[i].bytes();
  }
  labels_ = std::move(labels);
}

void GradientReduction::start(GradientAccess::Indices params) {
  in_flight_ = true;
  dense_.clear();
  dense_bytes_ = 0;
  sparse_.clear();
  tensors_.clear();
  new_sparse_ = false;
  try {
    new_sparse_ = context_.gradients->take(params, context_.over_ranks, tensors_);
    if (!context_.over_ranks) return;
    for (std::size_t place = 0; place < params.size(); ++place) {
      CallTensor& tensor = tensors_[place];
      (tensor.input.defined() ? dense_ : sparse_).push_back(params[place]);
      const ReductionContext::Compressed& kept = context_.compressed[params[place]];
      tensor.output = tensor.input;
      tensor.residual = kept.residual;
      tensor.compressor = kept.compressor;
    }
    for (const std::size_t i : dense_) dense_bytes_ += context_.gradients->parameters()[i].bytes();
    std::erase_if(tensors_, [](const CallTensor& each) { return !each.input.defined(); });
    for (const std::size_t i : sparse_) start_sparse(i);
  } catch (...) {
    refusal_ = std::current_exception();
    throw;
  }
}

void GradientReduction::start_sparse(std::size_t param) {
  GradientAccess& gradients = *context_.gradients;
  const std::string within = params_.size() > 1 ? "." + gradients.parameters()[param].name : "";
  sparse_calls_.push_back(
      gradients.start_sparse(param, {.op = context_.options.op,
                                     .name = call_name_ + within,
                                     .process_set = context_.options.process_set}));
}

void GradientReduction::submit() {
  const DistributedOptions& options = context_.options;
  AllreduceOptions call;
  call.op = options.op;
  call.name = call_name_;
  call.prescale_factor = 1 / options.gradient_predivide_factor;
  call.postscale_factor = options.gradient_predivide_factor;
  call.compression = options.compression;
  call.process_set = options.process_set;
  try {
    call_ = start_allreduce(tensors_, call, labels_, flagged_);
  } catch (...) {
    refusal_ = std::current_exception();
    throw;
  }
}

std::optional<bool> GradientReduction::any_flagged() const {
  if (call_ == nullptr) return std::nullopt;
  try {
    return call_->flagged();
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool GradientReduction::wait_until(TimePoint deadline) const {
  const auto over = [deadline](const auto& call) { return call->wait_until(deadline); };
  return (call_ == nullptr || over(call_)) && std::ranges::all_of(sparse_calls_, over);
}

void GradientReduction::wait() const {
  while (!wait_until(Clock::now() + std::chrono::hours(1))) {
  }
}

void GradientReduction::finish() {
  const std::shared_ptr<CallInFlight> call = std::exchange(call_, nullptr);
  sparse_calls_.clear();
  tensors_.clear();
  Attempts attempts;
  attempts.run([&] {
    if (refused()) std::rethrow_exception(refusal_);
    if (call == nullptr) return;
    const Device device = call->device();
    call->result(device.kind == DeviceKind::kCpu ? MaybeStream{}
                                                 : context_.gradients->reader(device));
  });
  for (const std::size_t i : sparse_) {
    attempts.run([&] { context_.gradients->finish_sparse(i); });
  }
  in_flight_ = false;
  forget_refusal();
  attempts.throw_first();
}

}  // namespace hvd
