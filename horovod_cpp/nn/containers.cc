#include "horovod_cpp/nn/containers.h"

#include <algorithm>
#include <string>

#include "core/base/status.h"

namespace hvd::nn {

Sequential::Sequential(const std::vector<std::shared_ptr<Module>>& modules) {
  for (const std::shared_ptr<Module>& module : modules) push_back(module);
}

void Sequential::push_back(std::shared_ptr<Module> module) {
  register_module(std::to_string(size()), std::move(module));
}

void Sequential::assign(const std::vector<std::shared_ptr<Module>>& modules) {
  for (std::size_t i = size(); i > 0; --i) unregister(std::to_string(i - 1));
  for (const std::shared_ptr<Module>& module : modules) push_back(module);
}

const std::shared_ptr<Module>& Sequential::at(std::size_t index) const {
  if (index >= size()) {
    throw InvalidArgumentError("module " + std::to_string(index) + " of a Sequential of " +
                               std::to_string(size()));
  }
  return named_children()[index].second;
}

Tensor Sequential::forward(const Tensor& input) {
  Tensor value = input;
  for (const auto& [name, module] : named_children()) value = (*module)(value);
  return value;
}

ModuleList::ModuleList(const std::vector<std::shared_ptr<Module>>& modules) {
  extend(modules);
}

void ModuleList::append(std::shared_ptr<Module> module) {
  register_module(std::to_string(size()), std::move(module));
}

void ModuleList::extend(const std::vector<std::shared_ptr<Module>>& modules) {
  for (const std::shared_ptr<Module>& module : modules) append(module);
}

void ModuleList::assign(const std::vector<std::shared_ptr<Module>>& modules) {
  for (std::size_t i = size(); i > 0; --i) unregister(std::to_string(i - 1));
  extend(modules);
}

const std::shared_ptr<Module>& ModuleList::at(std::size_t index) const {
  if (index >= size()) {
    throw InvalidArgumentError("module " + std::to_string(index) + " of a ModuleList of " +
                               std::to_string(size()));
  }
  return named_children()[index].second;
}

Tensor ModuleList::forward(const Tensor&) {
  throw InvalidArgumentError("a ModuleList has no forward; call its modules");
}

ModuleDict::ModuleDict(const NamedModules& modules) {
  for (const auto& [name, module] : modules) insert(name, module);
}

void ModuleDict::insert(const std::string& name, std::shared_ptr<Module> module) {
  if (module == nullptr) throw InvalidArgumentError("module '" + name + "' is null");
  if (contains(name)) unregister(name);
  register_module(name, std::move(module));
}

void ModuleDict::erase(const std::string& name) {
  at(name);
  unregister(name);
}

const std::shared_ptr<Module>& ModuleDict::at(const std::string& name) const {
  const auto found = std::ranges::find_if(named_children(),
                                          [&](const auto& entry) { return entry.first == name; });
  if (found == named_children().end()) {
    throw InvalidArgumentError("a ModuleDict has no module '" + name + "'");
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
