#pragma once

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace nn {

class Module;
struct Hooks;  // of one module

using NamedModules = std::vector<std::pair<std::string, std::shared_ptr<Module>>>;

// Called by operator() around forward(), in the order they were added. Each may return what
// replaces the input or the output, or an undefined Tensor to leave it. A layer that takes more
// than one tensor passes its first input and its main output.
using ForwardPreHook = std::function<Tensor(Module& module, const Tensor& input)>;
using ForwardHook =
    std::function<Tensor(Module& module, const Tensor& input, const Tensor& output)>;
// Called in backward() once the gradient of the module's input is known (undefined if the input
// wants none), which it may replace.
using BackwardHook =
    std::function<Tensor(Module& module, const Tensor& grad_input, const Tensor& grad_output)>;

// Leaves that require grad, and those that make_parameter() made parameters: they stay it while
// they are frozen.
bool is_parameter(const Tensor& tensor);
// The leaf requires grad from now on, unless it is a parameter already. Throws InvalidArgumentError
// on a dtype that is not floating, and on a tensor that is no leaf.
void make_parameter(Tensor& leaf);

// A layer or a model: named parameters, buffers and sub-modules, and a forward function. Names and
// their order are PyTorch's ("0.weight", "bn.running_mean"). Not thread-safe.
class Module {
 public:
  Module() = default;
  virtual ~Module();
  // A copy would share its tensors with the original without saying so.
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual Tensor forward(const Tensor& input) = 0;
  // forward() between the hooks. An InvalidArgumentError that comes out of it names the outermost
  // module and the innermost one it passed: "VGG: 'features.0' (Conv2d): ...".
  Tensor operator()(const Tensor& input) {
    return call(input, [this](const Tensor& given) { return forward(given); });
  }
  // What operator() does, with `body` in the place of forward(): for layers that take more inputs
  // than one. The tensors are the first input and the main output.
  Tensor call(const Tensor& input, const std::function<Tensor(const Tensor&)>& body);
  // Own ones first, then those of the sub-modules in the order of registration. A tensor that is
  // registered in several places comes once, under its first name.
  std::vector<Tensor> parameters() const;
  NamedTensors named_parameters() const { return named(Part::kParameter); }
  NamedTensors named_buffers() const { return named(Part::kBuffer); }
  // Parameters and buffers, under all their names; the tensors are the module's own, not copies.
  NamedTensors state_dict() const;
  // What load_state_dict() found to differ: entries that the state lacks, and such as the module
  // does not have.
  struct IncompatibleKeys {
    std::vector<std::string> missing;
    std::vector<std::string> unexpected;
  };
  // Copies values in, converting the dtype. Throws InvalidArgumentError naming missing, unexpected,
  // doubled or wrongly shaped entries, and complex ones of real tensors; nothing is changed then.
  // Not strict, missing and unexpected entries are returned instead.
  IncompatibleKeys load_state_dict(const NamedTensors& state, bool strict = true);

  // Virtual, so that a module can keep parts of itself as they are (frozen statistics).
  virtual void train(bool mode = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  // Drops the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);
  // Switches all parameters, as Tensor::requires_grad_ does.
  void requires_grad_(bool value = true);
  // Converts parameters, their gradients and buffers of a floating dtype in place: whoever holds
  // them (layers, optimizers made later) sees the new dtype. Throws InvalidArgumentError, and
  // changes nothing, on a dtype that is not floating and when a gradient lies in memory that a
  // DistributedOptimizer gave out.
  void to(DType dtype);
  void half() { to(DType::kF16); }
  void bfloat16() { to(DType::kBF16); }
  // Calls `function` on every sub-module, then on this one.
  void apply(const std::function<void(Module&)>& function);

  // Sub-modules with the names they were registered under.
  const NamedModules& named_children() const { return children_; }
  std::vector<std::shared_ptr<Module>> children() const;
  // All below this one with their paths ("layer1.0.conv1"), parents first, each module once.
  // PyTorch's lists also start with the module itself, under the name "".
  NamedModules named_descendants() const;
  // The path from the outermost module that holds this one; empty if none does.
  std::string path() const;
  // The pointer by which the module of path() holds this one; null if none does.
  std::shared_ptr<Module> held_by_parent() const;
  // The C++ class without its namespace ("Linear").
  virtual std::string class_name() const;
  // The options it was made with, as PyTorch prints them ("p=0.5, inplace=False"); empty by
  // default.
  virtual std::string extra_repr() const { return ""; }

  // Each returns a function that removes the hook.
  std::function<void()> register_forward_pre_hook(ForwardPreHook hook);
  std::function<void()> register_forward_hook(ForwardHook hook);
  std::function<void()> register_full_backward_hook(BackwardHook hook);

 protected:
  // Movable only by a layer's own class, so that Sequential can take layers by value.
  Module(Module&& other) noexcept;

  // Each throws InvalidArgumentError on a name that is empty, contains '.', or is taken, on an
  // undefined tensor or module, and on a module that is, or holds, this one. Returns what was
  // registered; parameters require grad (see make_parameter()). A buffer that is not persistent is
  // no part of state_dict().
  Tensor register_parameter(std::string name, Tensor value);
  Tensor register_buffer(std::string name, Tensor value, bool persistent = true);
  template <std::derived_from<Module> M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return module;
  }
  template <std::derived_from<Module> M>
  std::shared_ptr<M> register_module(std::string name, M module) {
    return register_module(std::move(name), std::make_shared<M>(std::move(module)));
  }
  // For a module around another one: as register_module, but without a name, so that all names,
  // paths and entries of state_dict() are those of the module inside.
  void register_wrapped(std::shared_ptr<Module> module) { adopt("", std::move(module)); }
  // What has this name, if anything has.
  enum class Part { kNone, kParameter, kBuffer, kModule };
  Part part(const std::string& name) const;
  // Forgets the parameter, buffer or sub-module; throws InvalidArgumentError if there is none.
  void unregister(const std::string& name);
  // Puts another tensor or module in the place of the one of this name and kind. Throws
  // InvalidArgumentError if there is none, and on those that register_...() refuses.
  void replace_parameter(const std::string& name, Tensor value);
  void replace_buffer(const std::string& name, Tensor value);
  void replace_module(const std::string& name, std::shared_ptr<Module> module);
  // `value` has taken the place of the parameter `old`, of which a layer may have more handles.
  virtual void parameter_replaced(const Tensor& /*old*/, const Tensor& /*value*/) {}

 private:
  struct Buffer {
    std::string first;  // named as in NamedTensors: its name
    Tensor second;
    bool persistent = true;
  };

  void adopt(std::string name, std::shared_ptr<Module> module);
  void let_go(const std::string& name, Module& child);
  void add_child(std::string name, std::shared_ptr<Module> module);
  void check_name(const std::string& name) const;
  // Calls `visit(part, full name, tensor, persistent)` for everything in PyTorch's order.
  template <typename Visit>
  void walk(const std::string& prefix, const Visit& visit) const;
  NamedTensors named(Part wanted) const;
  const std::shared_ptr<Hooks>& own_hooks();

  NamedTensors parameters_;
  std::vector<Buffer> buffers_;
  NamedModules children_;
  std::shared_ptr<Hooks> hooks_;  // null without any
  Module* parent_ = nullptr;      // the one that registered this module last, while it lives
  std::string name_;              // in parent_
  bool training_ = true;
};

// Throws InvalidArgumentError if `part` is null, or if it is, or holds, `above`.
void check_part(const Module& above, const std::string& name, const std::shared_ptr<Module>& part);

// module.call() of a body with several outputs, `main` among them.
template <typename Output, typename Body>
Output call_with_outputs(Module& module, const Tensor& input, Tensor Output::*main,
                         const Body& body) {
  Output output;
  output.*main = module.call(input, [&](const Tensor& given) {
    output = body(given);
    return output.*main;
  });
  return output;
}

// The module as PyTorch prints it: class, extra_repr(), and the sub-modules one per line, indented.
std::ostream& operator<<(std::ostream& out, const Module& module);

}  // namespace nn

std::string to_string(const nn::Module& module);  // the same

}  // namespace hvd
