#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_cpp/nn/module.h"

namespace hvd::nn {

// Modules named "0", "1", ...
class NumberedModules : public Module {
 public:
  void append(std::shared_ptr<Module> module) {
    register_module(std::to_string(size()), std::move(module));
  }
  void extend(const std::vector<std::shared_ptr<Module>>& modules) {
    for (const std::shared_ptr<Module>& module : modules) append(module);
  }
  // Holds these instead.
  void assign(const std::vector<std::shared_ptr<Module>>& modules);

  std::size_t size() const { return named_children().size(); }
  // Throws InvalidArgumentError when index is not below size().
  const std::shared_ptr<Module>& at(std::size_t index) const;
};

// Modules one after the other.
//
//   nn::Sequential model(nn::Linear(784, 64), nn::ReLU(), nn::Linear(64, 10));
class Sequential : public NumberedModules {
 public:
  Sequential() = default;
  explicit Sequential(const std::vector<std::shared_ptr<Module>>& modules) { extend(modules); }
  // Takes layers by value or by shared_ptr.
  template <typename... Modules>
  requires(sizeof...(Modules) > 0 &&
           ((std::derived_from<Modules, Module> ||
             std::convertible_to<
                 Modules, std::shared_ptr<Module>>)&&...)) explicit Sequential(Modules... modules) {
    (push_back(std::move(modules)), ...);
  }

  void push_back(std::shared_ptr<Module> module) { append(std::move(module)); }
  template <std::derived_from<Module> M>
  void push_back(M module) {
    push_back(std::shared_ptr<Module>(std::make_shared<M>(std::move(module))));
  }

  Tensor forward(const Tensor& input) override;
};

// Modules without an order of calls: the owner of the list calls them.
class ModuleList : public NumberedModules {
 public:
  ModuleList() = default;
  explicit ModuleList(const std::vector<std::shared_ptr<Module>>& modules) { extend(modules); }

  // Throws InvalidArgumentError: a list has no forward.
  Tensor forward(const Tensor& input) override;
};

// Modules with user-defined names, in the order they were added.
class ModuleDict : public Module {
 public:
  ModuleDict() = default;
  explicit ModuleDict(const NamedModules& modules) {
    for (const auto& [name, module] : modules) insert(name, module);
  }

  // Replaces the module of that name.
  void insert(const std::string& name, std::shared_ptr<Module> module);
  // Throw InvalidArgumentError naming the missing module.
  void erase(const std::string& name);
  const std::shared_ptr<Module>& at(const std::string& name) const;
  bool contains(const std::string& name) const;
  std::size_t size() const { return named_children().size(); }

  // Throws InvalidArgumentError: a dict has no forward.
  Tensor forward(const Tensor& input) override;
};

}  // namespace hvd::nn
