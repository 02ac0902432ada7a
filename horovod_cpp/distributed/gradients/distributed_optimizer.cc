#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/negotiate/messages/request.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/tensor_gradients.h"

namespace hvd {
namespace {

[[noreturn]] void refuse_optimizer(const std::string& why) {
  throw InvalidArgumentError("DistributedOptimizer: " + why);
}

std::string default_name(std::size_t group, std::size_t position) {
  return "parameter." + std::to_string(group) + "." + std::to_string(position);
}

// The optimizer's parameters in the order of its groups, each with its name.
NamedTensors with_names(optim::Optimizer& optimizer, const NamedTensors& given) {
  std::map<const void*, std::string> name_of;
  std::set<std::string> names;
  for (const auto& [name, param] : given) {
    if (!names.insert(name).second) refuse_optimizer("two parameters are named '" + name + "'");
    name_of.emplace(param.id(), name);
  }
  NamedTensors named;
  const auto& groups = optimizer.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t p = 0; p < groups[g].params.size(); ++p) {
      const Tensor& param = groups[g].params[p];
      const auto found = name_of.find(param.id());
      if (found == name_of.end() && !given.empty()) {
        refuse_optimizer("parameter " + std::to_string(p) + " of group " + std::to_string(g) +
                         ", shape " + to_string(param.shape()) + ", is not in named_parameters");
      }
      named.emplace_back(found == name_of.end() ? default_name(g, p) : found->second, param);
    }
  }
  return named;
}

void check_passes(int passes) {
  if (passes < 1) {
    refuse_optimizer("backward_passes_per_step is " + std::to_string(passes) +
                     ", must be at least 1");
  }
}

}  // namespace

void check_options(const DistributedOptions& options) {
  check_passes(options.backward_passes_per_step);
  const double predivide = options.gradient_predivide_factor;
  // Both 1 / factor and factor / size are rounded to float32.
  if (!(predivide >= 1e-30 && predivide <= 1e30)) {
    refuse_optimizer("gradient_predivide_factor is " + std::to_string(predivide) +
                     ", must be between 1e-30 and 1e30");
  }
  const bool linear = options.op == ReduceOp::kAverage || options.op == ReduceOp::kSum;
  if (predivide != 1 && options.op != ReduceOp::kAverage) {
    refuse_optimizer("gradient_predivide_factor works with Average, not with " +
                     std::string(name_of(options.op)));
  }
  if (options.num_groups < 0) {
    refuse_optimizer("the number of groups is " + std::to_string(options.num_groups) +
                     ", must not be negative");
  }
  if (options.num_groups > 0 && !options.groups.empty()) {
    refuse_optimizer("give num_groups or groups, not both");
  }
  if (options.clip_grad_norm && !(options.clip_grad_norm->max_norm > 0)) {
    refuse_optimizer("clip_grad_norm: max_norm is " +
                     std::to_string(options.clip_grad_norm->max_norm) + ", must be above 0");
  }
  if (!linear && !options.compression.is_none()) {
    refuse_optimizer("compression " + options.compression.name() +
                     " works with Average and Sum, not with " + std::string(name_of(options.op)));
  }
  if (options.op == ReduceOp::kAdasum && (options.num_groups > 0 || !options.groups.empty())) {
    refuse_optimizer("groups are of gradients; Adasum reduces none");
  }
  if (options.overlap_step && options.clip_grad_norm) {
    refuse_optimizer(
        "overlap_step updates parameters before all gradients have come, clip_grad_norm needs "
        "all of them first; give one of the two");
  }
  if (options.overlap_step && options.op == ReduceOp::kAdasum) {
    refuse_optimizer("overlap_step with Adasum, which reduces no gradients");
  }
}

DistributedOptimizer::DistributedOptimizer(std::shared_ptr<optim::Optimizer> optimizer,
                                           NamedTensors named_parameters,
                                           DistributedOptions options)
    : inner_(std::move(optimizer)), options_(std::move(options)) {
  if (inner_ == nullptr) refuse_optimizer("no optimizer given");
  if (dynamic_cast<DistributedOptimizer*>(inner_.get()) != nullptr) {
    refuse_optimizer("the optimizer is wrapped already");
  }
  check_options(options_);
  // Of this job, whatever init() makes later.
  options_.process_set = options_.process_set.world()->process_set(options_.process_set.id());
  named_ = with_names(*inner_, named_parameters);
  TensorReducer made = make_tensor_reducer(named_, options_, "DistributedOptimizer");
  gradients_ = std::move(made.gradients);
  reducer_ = std::move(made.reducer);
  gradients_->set_optimizer(inner_.get());
}

DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::step() {
  if (options_.overlap_step && !skips_synchronize_) return step_as_reduced();
  if (!skips_synchronize_) {
    reducer_->synchronize();
  } else {
    check_reduced();
  }
  const bool alone = !options_.process_set.included() || options_.process_set.size() == 1;
  if (options_.op == ReduceOp::kAdasum && !alone) {
    step_by_delta();
  } else {
    inner_->step();
  }
  reducer_->begin_step();
}

// Else this rank would step with gradients that the others do not have.
void DistributedOptimizer::check_reduced() const {
  if (const std::string name = reducer_->in_flight(); !name.empty()) {
    refuse_optimizer("step() inside skip_synchronize() while the gradient of " +
                     engine::quoted_name(name) + " is being reduced; call synchronize() first");
  }
  if (const std::string name = reducer_->unreduced(); !name.empty()) {
    refuse_optimizer(
        "step() inside skip_synchronize() although what backward() has added to the gradient of " +
        engine::quoted_name(name) + " is not reduced; call synchronize() first");
  }
}

// What the reducer does not hear of (a gradient without requires_grad, a synchronize() before this
// one, a world of one rank) steps at the end.
void DistributedOptimizer::step_as_reduced() {
  std::set<const void*> stepped;
  reducer_->synchronize([&](GradientAccess::Indices indices) {
    std::vector<Tensor> params;
    for (const std::size_t i : indices) {
      params.push_back(gradients_->param(i));
      stepped.insert(params.back().id());
    }
    inner_->step_parameters(params);
  });
  std::vector<Tensor> others;
  for (const auto& [name, param] : named_) {
    if (!stepped.contains(param.id())) others.push_back(param);
  }
  inner_->step_parameters(others);
  reducer_->begin_step();
}

void DistributedOptimizer::step_parameters(const std::vector<Tensor>& params) {
  reducer_->synchronize();
  inner_->step_parameters(params);
  reducer_->begin_step();
}

void DistributedOptimizer::step_by_delta() {
  reducer_->agree_on_setup();
  const NoGradGuard no_grad;
  NamedTensors trained;
  std::vector<Tensor> starts;
  for (const auto& [name, param] : named_) {
    if (!param.requires_grad()) continue;
    trained.emplace_back(name, param);
    starts.push_back(param.detach().clone());
  }
  inner_->step();
  std::vector<Tensor> deltas;
  std::vector<CollectiveHandle> handles;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    deltas.push_back(trained[i].second.detach().clone());
    deltas.back().add_(starts[i], -1.0);
    handles.push_back(allreduce_async_(deltas.back(), {.op = ReduceOp::kAdasum,
                                                       .name = "delta." + trained[i].first,
                                                       .process_set = options_.process_set}));
  }
  synchronize_all(handles);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    trained[i].second.copy_(starts[i].add_(deltas[i]));
  }
}

void DistributedOptimizer::synchronize() {
  reducer_->synchronize();
}

void DistributedOptimizer::zero_grad(bool set_to_none) {
  if (const std::string name = reducer_->in_flight(); !name.empty()) {
    refuse_optimizer(
        "zero_grad() while the gradient of " + engine::quoted_name(name) +
        " is being reduced; call step() or synchronize() first, and a backward() that is not meant "
        "for this optimizer inside its no_sync()");
  }
  reducer_->drop_accumulated();
  inner_->zero_grad(set_to_none);
}

ScopeGuard DistributedOptimizer::no_sync() {
  reducer_->hold();
  return ScopeGuard([reducer = reducer_] { reducer->release(); });
}

ScopeGuard DistributedOptimizer::skip_synchronize() {
  if (options_.op == ReduceOp::kAdasum) {
    refuse_optimizer("skip_synchronize() with Adasum, which reduces no gradients");
  }
  const bool before = std::exchange(skips_synchronize_, true);
  return ScopeGuard([this, before] { skips_synchronize_ = before; });
}

int DistributedOptimizer::backward_passes_per_step() const {
  return options_.backward_passes_per_step;
}

void DistributedOptimizer::set_backward_passes_per_step(int passes) {
  check_passes(passes);
  reducer_->set_backward_passes_per_step(passes);
  options_.backward_passes_per_step = passes;
}

void DistributedOptimizer::add_param_group(optim::ParamGroup group) {
  inner_->add_param_group(std::move(group));
  std::set<std::string> names;
  for (const auto& [name, param] : named_) names.insert(name);
  const std::size_t number = inner_->param_groups().size() - 1;
  const std::vector<Tensor>& params = inner_->param_groups().back().params;
  NamedTensors added;
  for (std::size_t p = 0; p < params.size(); ++p) {
    std::string name = default_name(number, p);
    while (!names.insert(name).second) name = "added." + name;
    added.emplace_back(std::move(name), params[p]);
  }
  named_.insert(named_.end(), added.begin(), added.end());
  if (!needs_reducer(options_)) return;
  gradients_->add(added);
  gradients_->hook(reducer_);
  reducer_->parameters_added();
}

void average_gradients(const std::vector<Tensor>& params, const AllreduceOptions& options) {
  AllreduceOptions call = options;
  if (call.name.empty()) call.name = "average_gradients";
  std::vector<Tensor> owners;
  std::vector<Tensor> gradients;
  std::vector<std::pair<Tensor, SparseHandle>> by_rows;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (travels_by_rows(params[i], call.op)) {
      if (const auto rows = gradient_as_rows(params[i])) {
        by_rows.emplace_back(
            params[i], sparse_allreduce_async(*rows, {.op = call.op,
                                                      .name = call.name + "." + std::to_string(i),
                                                      .prescale_factor = call.prescale_factor,
                                                      .postscale_factor = call.postscale_factor,
                                                      .process_set = call.process_set}));
      }
    } else if (const Tensor gradient = params[i].grad(); gradient.defined()) {
      owners.push_back(params[i]);
      gradients.push_back(gradient.contiguous());
    }
  }
  if (!gradients.empty() || by_rows.empty()) grouped_allreduce_(gradients, call);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (!gradients[i].is(owners[i].grad())) owners[i].set_grad(gradients[i]);
  }
  for (auto& [param, handle] : by_rows) {
    const RowGradient reduced = handle.synchronize();
    param.set_grad({});
    add_row_gradient(param, reduced.rows, reduced.values);
  }
}

void average_gradients(const nn::Module& module, const AllreduceOptions& options) {
  average_gradients(module.parameters(), options);
}

}  // namespace hvd
