#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// Modules one after the other, named "0", "1", ...
//
//   nn::Sequential model(nn::Linear(784, 64), nn::ReLU(), nn::Linear(64, 10));
class Sequential : public Module {
 public:
  Sequential() = default;
  explicit Sequential(const std::vector<std::shared_ptr<Module>>& modules);
  // Takes layers by value or by shared_ptr.
  template <typename... Modules>
  requires(sizeof...(Modules) > 0 &&
           ((std::derived_from<Modules, Module> ||
             std::convertible_to<
                 Modules, std::shared_ptr<Module>>)&&...)) explicit Sequential(Modules... modules) {
    (push_back(std::move(modules)), ...);
  }

  void push_back(std::shared_ptr<Module> module);
  template <std::derived_from<Module> M>
  void push_back(M module) {
    push_back(std::shared_ptr<Module>(std::make_shared<M>(std::move(module))));
  }

  // Holds these instead, under their numbers.
  void assign(const std::vector<std::shared_ptr<Module>>& modules);

  std::size_t size() const { return named_children().size(); }
  // Throws InvalidArgumentError when index is not below size().
  const std::shared_ptr<Module>& at(std::size_t index) const;

  Tensor forward(const Tensor& input) override;
};

}  // namespace nn
}  // namespace hvd
