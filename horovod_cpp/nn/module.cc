#include "horovod_cpp/nn/module.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/status.h"
#include "horovod_cpp/autograd/grad_mode.h"

namespace hvd {
namespace nn {
namespace {

bool has_name(const auto& entries, const std::string& name) {
  return std::ranges::any_of(entries, [&](const auto& entry) { return entry.first == name; });
}

// What keeps `state` from fitting `own`, one clause an entry; empty if nothing does.
std::string find_faults(const NamedTensors& own, const NamedTensors& state) {
  std::map<std::string, Tensor> given;
  std::string faults;
  for (const auto& [name, tensor] : state) {
    if (!given.emplace(name, tensor).second) faults += "; '" + name + "' is there twice";
  }
  for (const auto& [name, tensor] : own) {
    const auto it = given.find(name);
    if (it == given.end() || !it->second.defined()) {
      faults += "; '" + name + "' is missing";
    } else if (it->second.shape() != tensor.shape()) {
      faults += "; '" + name + "' has shape " + to_string(it->second.shape()) + ", expected " +
                to_string(tensor.shape());
    }
    if (it != given.end()) given.erase(it);
  }
  for (const auto& [name, tensor] : given) faults += "; '" + name + "' is unexpected";
  return faults;
}

}  // namespace

template <typename Visit>
void Module::walk(const std::string& prefix, const Visit& visit) const {
  for (const auto& [name, tensor] : parameters_) visit(Kind::kParameter, prefix + name, tensor);
  for (const auto& [name, tensor] : buffers_) visit(Kind::kBuffer, prefix + name, tensor);
  for (const auto& [name, child] : children_) child->walk(prefix + name + ".", visit);
}

NamedTensors Module::named(Kind wanted) const {
  NamedTensors found;
  std::set<const void*> seen;
  walk("", [&](Kind kind, const std::string& name, const Tensor& tensor) {
    if (kind == wanted && seen.insert(tensor.id()).second) found.emplace_back(name, tensor);
  });
  return found;
}

NamedTensors Module::named_parameters() const {
  return named(Kind::kParameter);
}

NamedTensors Module::named_buffers() const {
  return named(Kind::kBuffer);
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named_parameters()) tensors.push_back(tensor);
  return tensors;
}

NamedTensors Module::state_dict() const {
  NamedTensors state;
  walk("", [&](Kind, const std::string& name, const Tensor& tensor) {
    state.emplace_back(name, tensor);
  });
  return state;
}

void Module::load_state_dict(const NamedTensors& state) {
  NamedTensors own = state_dict();
  const std::string faults = find_faults(own, state);
  if (!faults.empty()) throw InvalidArgumentError("load_state_dict: " + faults.substr(2));
  const NoGradGuard no_grad;
  std::map<std::string, Tensor> targets(own.begin(), own.end());
  for (const auto& [name, tensor] : state) targets.at(name).copy_(tensor);
}

void Module::train(bool mode) {
  apply([mode](Module& module) { module.training_ = mode; });
}

void Module::zero_grad(bool set_to_none) {
  const NoGradGuard no_grad;
  for (Tensor& parameter : parameters()) {
    Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    if (set_to_none) {
      parameter.set_grad({});
    } else {
      grad.zero_();
    }
  }
}

void Module::apply(const std::function<void(Module&)>& function) {
  for (const auto& [name, child] : children_) child->apply(function);
  function(*this);
}

Tensor Module::register_parameter(std::string name, Tensor value) {
  check_name(name);
  if (!value.defined()) throw InvalidArgumentError("parameter '" + name + "' is undefined");
  value.requires_grad_();
  parameters_.emplace_back(std::move(name), value);
  return value;
}

Tensor Module::register_buffer(std::string name, Tensor value) {
  check_name(name);
  if (!value.defined()) throw InvalidArgumentError("buffer '" + name + "' is undefined");
  buffers_.emplace_back(std::move(name), value);
  return value;
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  check_name(name);
  if (module == nullptr) throw InvalidArgumentError("module '" + name + "' is null");
  children_.emplace_back(std::move(name), std::move(module));
}

void Module::check_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw InvalidArgumentError("'" + name + "' cannot name a part of a module: empty or with '.'");
  }
  if (has_name(parameters_, name) || has_name(buffers_, name) || has_name(children_, name)) {
    throw InvalidArgumentError("the module has a part named '" + name + "' already");
  }
}

}  // namespace nn
}  // namespace hvd
