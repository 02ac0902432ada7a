#include "horovod_cpp/distributed/distributed_data_parallel.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/setup_agreement.h"
#include "horovod_cpp/distributed/gradients/tensor_gradients.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

constexpr double kMiB = 1 << 20;

[[noreturn]] void refuse_model(const std::string& why) {
  throw InvalidArgumentError("DistributedDataParallel: " + why);
}

std::vector<Tensor> trained(const nn::Module& module) {
  std::vector<Tensor> params;
  for (const Tensor& param : module.parameters()) {
    if (param.requires_grad()) params.push_back(param);
  }
  return params;
}

// Last parameters first; each bucket of at most `cap_mb`, or of one parameter.
std::vector<std::vector<Tensor>> buckets_of(const std::vector<Tensor>& params, double cap_mb) {
  std::vector<std::vector<Tensor>> buckets;
  if (cap_mb == 0) return buckets;
  double filled = 0;
  for (auto param = params.rbegin(); param != params.rend(); ++param) {
    const double size =
        static_cast<double>(param->numel()) * static_cast<double>(size_of(param->dtype())) / kMiB;
    if (buckets.empty() || filled + size > cap_mb) {
      buckets.emplace_back();
      filled = 0;
    }
    buckets.back().push_back(*param);
    filled += size;
  }
  return buckets;
}

DistributedOptions reducer_options(const nn::Module& module,
                                   const DistributedDataParallelOptions& options) {
  DistributedOptions result;
  result.compression = options.compression;
  result.groups = buckets_of(trained(module), options.bucket_cap_mb);
  result.gradient_as_bucket_view = options.gradient_as_bucket_view;
  result.process_set = options.process_set;
  return result;
}

}  // namespace

// The reducer, which every backward() that reaches the module drives to its end.
class DistributedDataParallel::Reduction : public std::enable_shared_from_this<Reduction> {
 public:
  Reduction(const NamedTensors& parameters, const DistributedOptions& options) {
    for (const auto& [name, param] : parameters) {
      if (!param.requires_grad()) continue;
      params_.push_back(param);
      // Before those of the reducer.
      remove_hooks_.push_back(
          autograd::before_delivery(param, [this](const Tensor&) { begin_pass(); }));
    }
    reducer_ = make_tensor_reducer(parameters, options, "DistributedDataParallel").reducer;
  }
  ~Reduction() {
    for (const auto& remove : remove_hooks_) remove();
  }
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  std::string name() const { return reducer_->name(); }
  void begin_pass() {
    if (pass_ == autograd::current_pass()) return;
    end_failed_pass();
    if (!held()) pass_ = autograd::current_pass();
    autograd::after_backward(this, [self = weak_from_this()] {
      if (const auto alive = self.lock()) alive->finish();
    });
  }
  // The last backward() threw, and its end was not reached. The other ranks may be waiting there:
  // this one makes up for it, and drops what it has of that pass.
  void end_failed_pass() {
    if (std::exchange(pass_, 0) == 0) return;
    reduce();
    for (Tensor& param : params_) param.set_grad({});
  }
  void hold() { reducer_->hold(); }
  void release() { reducer_->release(); }
  bool held() const { return reducer_->held(); }

 private:
  void finish() {
    pass_ = 0;
    if (!held()) reduce();
  }
  void reduce() {
    reducer_->synchronize();
    reducer_->begin_step();
  }

  std::vector<Tensor> params_;
  std::vector<std::function<void()>> remove_hooks_;
  std::shared_ptr<GradientReducer> reducer_;
  std::uint64_t pass_ = 0;  // that has begun outside no_sync(), and not ended
};

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<nn::Module> module,
                                                 DistributedDataParallelOptions options)
    : module_(std::move(module)), options_(std::move(options)) {
  if (module_ == nullptr) refuse_model("no module given");
  if (!(options_.bucket_cap_mb >= 0)) {
    refuse_model("bucket_cap_mb is " + std::to_string(options_.bucket_cap_mb) +
                 ", must be at least 0");
  }
  // Of this job, whatever init() makes later.
  const auto world = options_.process_set.world();
  options_.process_set = world->process_set(options_.process_set.id());
  register_wrapped(module_);
  if (options_.process_set.included()) {
    broadcast_parameters(module_->state_dict(), options_.process_set.ranks().front(),
                         options_.process_set);
  }
  reduction_ =
      std::make_shared<Reduction>(module_->named_parameters(), reducer_options(*module_, options_));
  compare_options();
}

// A rank that broadcasts its buffers would wait for one that does not.
void DistributedDataParallel::compare_options() const {
  const ProcessSet& set = options_.process_set;
  if (!set.included() || set.size() == 1) return;
  SetupAgreement(reduction_->name(), set)
      .compare("broadcast_buffers", options_.broadcast_buffers ? 1 : 0,
               options_.broadcast_buffers ? "it on" : "it off");
}

DistributedDataParallel::~DistributedDataParallel() = default;

void DistributedDataParallel::broadcast_buffers() {
  std::vector<Tensor> buffers;
  for (const auto& [name, buffer] : module_->named_buffers()) buffers.push_back(buffer);
  if (buffers.empty()) return;
  grouped_broadcast_(
      buffers, options_.process_set.ranks().front(),
      {.name = reduction_->name() + ".buffers", .process_set = options_.process_set});
}

void DistributedDataParallel::begin_forward() {
  if (autograd::current_pass() == 0) reduction_->end_failed_pass();
  const ProcessSet& set = options_.process_set;
  const bool shares = set.included() && set.size() > 1;
  if (options_.broadcast_buffers && is_training() && shares && !reduction_->held()) {
    broadcast_buffers();
  }
}

// A rank whose pass uses no parameter takes part in the reductions too.
Tensor DistributedDataParallel::finish_forward(const Tensor& output) {
  if (!autograd::should_record({&output})) return output;
  return autograd::record(kernels::alias(output), "distributed_data_parallel",
                          {autograd::edge_to(output)},
                          [reduction = reduction_](const Tensor& gradient) {
                            reduction->begin_pass();
                            return std::vector<Tensor>{gradient};
                          });
}

Tensor DistributedDataParallel::forward(const Tensor& input) {
  begin_forward();
  return finish_forward((*module_)(input));
}

ScopeGuard DistributedDataParallel::no_sync() {
  reduction_->hold();
  return ScopeGuard([reduction = reduction_] { reduction->release(); });
}

}  // namespace hvd
