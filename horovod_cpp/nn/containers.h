#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// Modules named "0", "1", ... without an order of calls: whoever holds the list calls them.
class ModuleList : public Module {
 public:
  ModuleList() = default;
  explicit ModuleList(const std::vector<std::shared_ptr<Module>>& modules);

  void append(std::shared_ptr<Module> module);
  void extend(const std::vector<std::shared_ptr<Module>>& modules);
  // Holds these instead.
  void assign(const std::vector<std::shared_ptr<Module>>& modules);
  std::size_t size() const { return named_children().size(); }
  // Throws InvalidArgumentError when index is not below size().
  const std::shared_ptr<Module>& at(std::size_t index) const;

  // Throws InvalidArgumentError: a list has no forward.
  Tensor forward(const Tensor& input) override;
};

// Modules with names of the user's, in the order they were added.
class ModuleDict : public Module {
 public:
  ModuleDict() = default;
  explicit ModuleDict(const NamedModules& modules);

  // Replaces the module of that name.
  void insert(const std::string& name, std::shared_ptr<Module> module);
  // Throw InvalidArgumentError naming the name that is not there.
  void erase(const std::string& name);
  const std::shared_ptr<Module>& at(const std::string& name) const;
  bool contains(const std::string& name) const;
  std::size_t size() const { return named_children().size(); }

  // Throws InvalidArgumentError: a dict has no forward.
  Tensor forward(const Tensor& input) override;
};

}  // namespace nn
}  // namespace hvd
