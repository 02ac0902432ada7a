#include "horovod_cpp/dist/distributed_optimizer.h"

#include <map>
#include <set>

#include "core/base/status.h"
#include "horovod_cpp/dist/session.h"

namespace hvd {
namespace {

std::string default_name(std::size_t group, std::size_t position) {
  return "parameter." + std::to_string(group) + "." + std::to_string(position);
}

// The optimizer's parameters in the order of its groups, each with its name.
NamedTensors with_names(optim::Optimizer& optimizer, const NamedTensors& given) {
  std::map<const void*, std::string> name_of;
  std::set<std::string> names;
  for (const auto& [name, param] : given) {
    if (!names.insert(name).second) {
      throw InvalidArgumentError("DistributedOptimizer: two parameters are named '" + name + "'");
    }
    name_of.emplace(param.id(), name);
  }
  NamedTensors named;
  const auto& groups = optimizer.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t p = 0; p < groups[g].params.size(); ++p) {
      const Tensor& param = groups[g].params[p];
      const auto found = name_of.find(param.id());
      if (found == name_of.end() && !given.empty()) {
        throw InvalidArgumentError("DistributedOptimizer: parameter " + std::to_string(p) +
                                   " of group " + std::to_string(g) + ", shape " +
                                   to_string(param.shape()) + ", is not in named_parameters");
      }
      named.emplace_back(found == name_of.end() ? default_name(g, p) : found->second, param);
    }
  }
  return named;
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(std::shared_ptr<optim::Optimizer> optimizer,
                                           NamedTensors named_parameters,
                                           DistributedOptions options)
    : world_(options.world != nullptr ? options.world : world()),
      inner_(std::move(optimizer)),
      options_(std::move(options)) {
  if (inner_ == nullptr) throw InvalidArgumentError("DistributedOptimizer: no optimizer given");
  if (options_.backward_passes_per_step < 1) {
    throw InvalidArgumentError("DistributedOptimizer: backward_passes_per_step is " +
                               std::to_string(options_.backward_passes_per_step) +
                               ", must be at least 1");
  }
  NamedTensors named = with_names(*inner_, named_parameters);
  if (world_->topology().size == 1) return;
  for (auto& [name, param] : named) {
    if (!param.requires_grad()) continue;
    auto entry = std::make_unique<Entry>();
    entry->name = std::move(name);
    entry->param = param;
    entry->remove_hook =
        param.register_hook([this, raw = entry.get()](const Tensor&) { on_gradient(*raw); });
    entries_.push_back(std::move(entry));
  }
}

DistributedOptimizer::~DistributedOptimizer() {
  for (const auto& entry : entries_) entry->remove_hook();
}

void DistributedOptimizer::on_gradient(Entry& entry) {
  if (entry.in_flight) {
    throw InvalidArgumentError(
        "DistributedOptimizer: '" + entry.name + "' got more than backward_passes_per_step=" +
        std::to_string(options_.backward_passes_per_step) +
        " backward passes since the last step(); raise it, or call step() in between");
  }
  synchronized_ = false;
  ++entry.passes;
  if (entry.passes >= options_.backward_passes_per_step) reduce(entry);
}

void DistributedOptimizer::reduce(Entry& entry) {
  Tensor grad = entry.param.grad();
  if (!grad.defined()) {
    grad = Tensor::zeros(entry.param.shape(), entry.param.dtype());
    entry.param.set_grad(grad);
  } else if (!grad.is_contiguous()) {
    grad = grad.contiguous();
    entry.param.set_grad(grad);
  }
  entry.handle = world_->allreduce_async(grad, grad, options_.op, entry.name);
  entry.in_flight = true;
  entry.passes = 0;
}

void DistributedOptimizer::synchronize() {
  if (synchronized_) return;
  for (const auto& entry : entries_) {
    if (!entry->in_flight) reduce(*entry);
  }
  std::vector<CollectiveHandle> handles;
  for (const auto& entry : entries_) {
    handles.push_back(std::move(entry->handle));
    entry->in_flight = false;
  }
  synchronize_all(handles);
  synchronized_ = true;
}

void DistributedOptimizer::step() {
  synchronize();
  inner_->step();
  synchronized_ = false;
}

void DistributedOptimizer::zero_grad(bool set_to_none) {
  for (const auto& entry : entries_) {
    if (entry->in_flight) {
      throw InvalidArgumentError("DistributedOptimizer: zero_grad() while the gradient of '" +
                                 entry->name +
                                 "' is being reduced; call step() or synchronize() first");
    }
  }
  inner_->zero_grad(set_to_none);
}

void DistributedOptimizer::add_param_group(optim::ParamGroup) {
  throw InvalidArgumentError(
      "DistributedOptimizer: add parameter groups to the optimizer before it is wrapped");
}

}  // namespace hvd
