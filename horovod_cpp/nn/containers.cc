#include "horovod_cpp/nn/containers.h"

#include <algorithm>

#include "core/base/status.h"

namespace hvd::nn {

void NumberedModules::assign(const std::vector<std::shared_ptr<Module>>& modules) {
  for (std::size_t i = 0; i < modules.size(); ++i) check_part(*this, std::to_string(i), modules[i]);
  for (std::size_t i = size(); i > 0; --i) unregister(std::to_string(i - 1));
  extend(modules);
}

const std::shared_ptr<Module>& NumberedModules::at(std::size_t index) const {
  if (index >= size()) {
    throw InvalidArgumentError("module ", index, " of a ", class_name(), " of ", size());
  }
  return named_children()[index].second;
}

Tensor Sequential::forward(const Tensor& input) {
  Tensor value = input;
  for (const auto& [name, module] : named_children()) value = (*module)(value);
  return value;
}

Tensor ModuleList::forward(const Tensor&) {
  throw InvalidArgumentError("a ModuleList has no forward; call its modules");
}

void ModuleDict::insert(const std::string& name, std::shared_ptr<Module> module) {
  if (contains(name)) {
    replace_module(name, std::move(module));
  } else {
    register_module(name, std::move(module));
  }
}

void ModuleDict::erase(const std::string& name) {
  at(name);
  unregister(name);
}

const std::shared_ptr<Module>& ModuleDict::at(const std::string& name) const {
  const auto found = std::ranges::find_if(named_children(),
                                          [&](const auto& entry) { return entry.first == name; });
  if (found == named_children().end()) {
    throw InvalidArgumentError("a ModuleDict has no module '", name, "'");
  }
  return found->second;
}

bool ModuleDict::contains(const std::string& name) const {
  return std::ranges::any_of(named_children(),
                             [&](const auto& entry) { return entry.first == name; });
}

Tensor ModuleDict::forward(const Tensor&) {
  throw InvalidArgumentError("a ModuleDict has no forward; call its modules");
}

}  // namespace hvd::nn
