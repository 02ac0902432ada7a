#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/named_tensors.h"

namespace hvd {
namespace nn {

// A layer or a model: named parameters, buffers and sub-modules, and a forward function. Names and
// their order are PyTorch's ("0.weight", "bn.running_mean"). Not thread-safe.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  // A copy would share its tensors with the original without saying so.
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual Tensor forward(const Tensor& input) = 0;
  Tensor operator()(const Tensor& input) { return forward(input); }

  // Own ones first, then those of the sub-modules in the order of registration. A tensor that is
  // registered in several places comes once, under its first name.
  std::vector<Tensor> parameters() const;
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  // Parameters and buffers, under all their names; the tensors are the module's own, not copies.
  NamedTensors state_dict() const;
  // Copies values in, converting the dtype. Throws InvalidArgumentError naming missing, unexpected,
  // doubled or wrongly shaped entries; nothing is changed then.
  void load_state_dict(const NamedTensors& state);

  void train(bool mode = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  // Drops the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);
  // Calls `function` on every sub-module, then on this one.
  void apply(const std::function<void(Module&)>& function);

  // Sub-modules with the names they were registered under.
  const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& named_children() const {
    return children_;
  }

 protected:
  // Movable only by a layer's own class, so that Sequential can take layers by value.
  Module(Module&&) = default;

  // Each throws InvalidArgumentError on a name that is empty, contains '.', or is taken, and on an
  // undefined tensor or module. Returns what was registered; parameters require grad.
  Tensor register_parameter(std::string name, Tensor value);
  Tensor register_buffer(std::string name, Tensor value);
  template <std::derived_from<Module> M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return module;
  }
  template <std::derived_from<Module> M>
  std::shared_ptr<M> register_module(std::string name, M module) {
    return register_module(std::move(name), std::make_shared<M>(std::move(module)));
  }

 private:
  enum class Kind { kParameter, kBuffer };

  void add_child(std::string name, std::shared_ptr<Module> module);
  void check_name(const std::string& name) const;
  // Calls `visit(kind, full name, tensor)` for everything in PyTorch's order.
  template <typename Visit>
  void walk(const std::string& prefix, const Visit& visit) const;
  NamedTensors named(Kind wanted) const;

  NamedTensors parameters_;
  NamedTensors buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
};

}  // namespace nn
}  // namespace hvd
