#include "horovod_cpp/nn/module.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <typeinfo>

#include "core/base/status.h"
#include "core/system/process.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace nn {

struct Hooks {
  Module* owner = nullptr;
  autograd::HookList<ForwardPreHook> before;
  autograd::HookList<ForwardHook> after;
  autograd::HookList<BackwardHook> backward;
};

namespace {

bool has_name(const auto& entries, const std::string& name) {
  return std::ranges::any_of(entries, [&](const auto& entry) { return entry.first == name; });
}

// What keeps `state` from fitting `own`, one clause per entry; empty if nothing does.
std::string find_faults(const NamedTensors& own, const NamedTensors& state,
                        Module::IncompatibleKeys& keys) {
  std::map<std::string, Tensor> given;
  std::string faults;
  for (const auto& [name, tensor] : state) {
    if (!given.emplace(name, tensor).second) faults += "; '" + name + "' appears twice";
  }
  for (const auto& [name, tensor] : own) {
    const auto it = given.find(name);
    if (it == given.end() || !it->second.defined()) {
      keys.missing.push_back(name);
    } else if (it->second.shape() != tensor.shape()) {
      faults += "; '" + name + "' has shape " + to_string(it->second.shape()) + ", expected " +
                to_string(tensor.shape());
    } else if (is_complex(it->second.dtype()) && !is_complex(tensor.dtype())) {
      faults += str_cat("; '", name, "' is ", it->second.dtype(), ", expected ", tensor.dtype());
    }
    if (it != given.end()) given.erase(it);
  }
  for (const auto& [name, tensor] : given) keys.unexpected.push_back(name);
  return faults;
}

// An error that has the name of a module already.
class LocatedError : public InvalidArgumentError {
 public:
  using InvalidArgumentError::InvalidArgumentError;
};

// Converts in place: all handles on the tensor see the new dtype.
void convert(const Tensor& tensor, DType dtype) {
  const Tensor converted = kernels::to(tensor.detach(), dtype);
  const Tensor::Impl& from = impl_of(converted);
  Tensor::Impl& into = impl_of(tensor);
  into.storage = from.storage;
  into.data = from.data;
  into.dtype = from.dtype;
  into.strides = from.strides;
  into.contiguous = from.contiguous;
}

void convert_with_gradient(Tensor tensor, DType dtype) {
  const Tensor grad = tensor.grad();
  tensor.set_grad({});
  convert(tensor, dtype);
  if (grad.defined()) tensor.set_grad(kernels::to(grad, dtype));
}

// "a" and "b" are "a.b"; what a wrapper holds has no name.
std::string joined(const std::string& above, const std::string& name) {
  return above.empty() || name.empty() ? above + name : above + "." + name;
}

// The tensor or module under `name`.
auto& entry_of(auto& entries, const std::string& name) {
  const auto found =
      std::ranges::find_if(entries, [&](const auto& entry) { return entry.first == name; });
  if (found == entries.end()) {
    throw InvalidArgumentError("the module has no part of that kind named '", name, "'");
  }
  return found->second;
}

void erase_name(auto& entries, const std::string& name) {
  std::erase_if(entries, [&](const auto& entry) { return entry.first == name; });
}

// The same values; `pass` sees the gradient and returns the one that goes on.
Tensor watched(const Tensor& tensor, std::function<Tensor(const Tensor&)> pass) {
  return autograd::record(
      kernels::alias(tensor), "module_backward_hook", {autograd::edge_to(tensor)},
      [pass = std::move(pass)](const Tensor& gradient) {
        return std::vector<Tensor>{pass(gradient)};
      },
      autograd::Order::kAny);
}

// One call of a module whose gradients are watched.
struct Watch {
  Tensor call_hooks(const Tensor& grad_input) {
    Tensor result = grad_input;
    if (const std::shared_ptr<Hooks> alive = hooks.lock()) {
      const auto entries = alive->backward.entries;
      for (const auto& [id, hook] : entries) {
        Tensor replaced = hook(*alive->owner, result, grad_output);
        if (replaced.defined() && result.defined()) result = std::move(replaced);
      }
    }
    grad_output = {};
    return result;
  }

  std::weak_ptr<Hooks> hooks;
  Tensor grad_output;
};

// Runs `body(input)` between the hooks. Backward hooks are not called any more once the module and
// with it its hooks are gone.
Tensor call_with_hooks(const std::shared_ptr<Hooks>& hooks, const Tensor& input,
                       const std::function<Tensor(const Tensor&)>& body) {
  Module& module = *hooks->owner;
  Tensor given = input;
  const auto before = hooks->before.entries;
  for (const auto& [id, hook] : before) {
    Tensor replaced = hook(module, given);
    if (replaced.defined()) given = std::move(replaced);
  }
  const bool watches = !hooks->backward.entries.empty() && grad_enabled();
  const auto watch = std::make_shared<Watch>(Watch{hooks, {}});
  const bool input_watched = watches && autograd::requires_grad(given);
  const Tensor seen =
      input_watched
          ? watched(given, [watch](const Tensor& gradient) { return watch->call_hooks(gradient); })
          : given;
  Tensor output = body(seen);
  if (watches && autograd::requires_grad(output)) {
    output = watched(output, [watch, input_watched](const Tensor& gradient) {
      watch->grad_output = gradient;
      if (!input_watched) watch->call_hooks({});
      return gradient;
    });
  }
  const auto after = hooks->after.entries;
  for (const auto& [id, hook] : after) {
    Tensor replaced = hook(module, given, output);
    if (replaced.defined()) output = std::move(replaced);
  }
  return output;
}

bool holds(const Module& above, const Module& module) {
  return std::ranges::any_of(above.named_children(), [&module](const auto& entry) {
    return entry.second.get() == &module || holds(*entry.second, module);
  });
}

}  // namespace

void check_part(const Module& above, const std::string& name, const std::shared_ptr<Module>& part) {
  if (part == nullptr) throw InvalidArgumentError("module '", name, "' is null");
  if (part.get() != &above && !holds(*part, above)) return;
  throw InvalidArgumentError(
      "module '", name, "' of this ", above.class_name(), " is, or holds, the ", above.class_name(),
      " itself: a module cannot be a part of itself. Refer to it without registering it: in "
      "Python by a tuple of it, in C++ by a plain pointer");
}

bool is_parameter(const Tensor& tensor) {
  const auto& place = tensor.record();
  return place != nullptr && tensor.is_leaf() && (place->requires_grad || place->is_parameter);
}

void make_parameter(Tensor& leaf) {
  if (!is_floating(leaf.dtype())) {
    throw InvalidArgumentError("a parameter is of a floating dtype, not ", leaf.dtype(),
                               ": register a buffer instead");
  }
  if (!is_parameter(leaf)) leaf.requires_grad_();
  leaf.record()->is_parameter = true;
}

Module::Module(Module&& other) noexcept
    : parameters_(std::move(other.parameters_)),
      buffers_(std::move(other.buffers_)),
      children_(std::move(other.children_)),
      hooks_(std::move(other.hooks_)),
      training_(other.training_) {
  for (const auto& [name, child] : children_) {
    if (child->parent_ == &other) child->parent_ = this;
  }
  if (hooks_ != nullptr) hooks_->owner = this;
}

Module::~Module() {
  for (const auto& [name, child] : children_) {
    if (child->parent_ == this) child->parent_ = nullptr;
  }
}

Tensor Module::call(const Tensor& input, const std::function<Tensor(const Tensor&)>& body) {
  try {
    return hooks_ == nullptr ? body(input) : call_with_hooks(hooks_, input, body);
  } catch (const LocatedError&) {
    throw;
  } catch (const InvalidArgumentError& error) {
    const Module* outermost = this;
    while (outermost->parent_ != nullptr) outermost = outermost->parent_;
    const std::string inside = outermost == this ? "" : ": '" + path() + "' (" + class_name() + ")";
    throw LocatedError(outermost->class_name() + inside + ": " + error.what());
  }
}

std::string Module::path() const {
  if (parent_ == nullptr) return {};
  return joined(parent_->path(), name_);
}

std::shared_ptr<Module> Module::held_by_parent() const {
  if (parent_ == nullptr) return nullptr;
  const auto found = std::ranges::find_if(
      parent_->children_, [this](const auto& entry) { return entry.second.get() == this; });
  return found == parent_->children_.end() ? nullptr : found->second;
}

std::string Module::class_name() const {
  return engine::class_name_of(typeid(*this));
}

const std::shared_ptr<Hooks>& Module::own_hooks() {
  if (hooks_ == nullptr) hooks_ = std::make_shared<Hooks>(Hooks{this, {}, {}, {}});
  return hooks_;
}

std::function<void()> Module::register_forward_pre_hook(ForwardPreHook hook) {
  return autograd::add_hook(own_hooks(), &Hooks::before, std::move(hook));
}

std::function<void()> Module::register_forward_hook(ForwardHook hook) {
  return autograd::add_hook(own_hooks(), &Hooks::after, std::move(hook));
}

std::function<void()> Module::register_full_backward_hook(BackwardHook hook) {
  return autograd::add_hook(own_hooks(), &Hooks::backward, std::move(hook));
}

std::vector<std::shared_ptr<Module>> Module::children() const {
  std::vector<std::shared_ptr<Module>> modules;
  for (const auto& [name, child] : children_) {
    if (std::ranges::find(modules, child) == modules.end()) modules.push_back(child);
  }
  return modules;
}

NamedModules Module::named_descendants() const {
  NamedModules found;
  const auto add = [&found](const auto& self, const Module& module,
                            const std::string& prefix) -> void {
    for (const auto& [name, child] : module.children_) {
      const Module* one = child.get();
      const bool known = std::ranges::any_of(
          found, [one](const auto& entry) { return entry.second.get() == one; });
      if (known) continue;
      const std::string at = joined(prefix, name);
      found.emplace_back(at, child);
      self(self, *child, at);
    }
  };
  add(add, *this, "");
  return found;
}

template <typename Visit>
void Module::walk(const std::string& prefix, const Visit& visit) const {
  for (const auto& [name, tensor] : parameters_) {
    visit(Part::kParameter, joined(prefix, name), tensor, true);
  }
  for (const Buffer& buffer : buffers_) {
    visit(Part::kBuffer, joined(prefix, buffer.first), buffer.second, buffer.persistent);
  }
  for (const auto& [name, child] : children_) child->walk(joined(prefix, name), visit);
}

NamedTensors Module::named(Part wanted) const {
  NamedTensors found;
  std::set<const void*> seen;
  walk("", [&](Part kind, const std::string& name, const Tensor& tensor, bool /*persistent*/) {
    if (kind == wanted && seen.insert(tensor.id()).second) found.emplace_back(name, tensor);
  });
  return found;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named_parameters()) tensors.push_back(tensor);
  return tensors;
}

NamedTensors Module::state_dict() const {
  NamedTensors state;
  walk("", [&](Part, const std::string& name, const Tensor& tensor, bool persistent) {
    if (persistent) state.emplace_back(name, tensor);
  });
  return state;
}

Module::IncompatibleKeys Module::load_state_dict(const NamedTensors& state, bool strict) {
  NamedTensors own = state_dict();
  IncompatibleKeys keys;
  std::string faults = find_faults(own, state, keys);
  if (strict) {
    for (const std::string& name : keys.missing) faults += "; '" + name + "' is missing";
    for (const std::string& name : keys.unexpected) faults += "; '" + name + "' is unexpected";
  }
  if (!faults.empty()) throw InvalidArgumentError("load_state_dict: ", faults.substr(2));
  const NoGradGuard no_grad;
  std::map<std::string, Tensor> targets(own.begin(), own.end());
  for (const auto& [name, tensor] : state) {
    const auto target = targets.find(name);
    if (target != targets.end() && tensor.defined()) target->second.copy_(tensor);
  }
  return keys;
}

void Module::train(bool mode) {
  training_ = mode;
  for (const auto& [name, child] : children_) child->train(mode);
}

void Module::zero_grad(bool set_to_none) {
  const NoGradGuard no_grad;
  for (Tensor& parameter : parameters()) {
    if (set_to_none) {
      parameter.set_grad({});
    } else if (Tensor grad = parameter.grad(); grad.defined()) {
      grad.zero_();
    }
  }
}

void Module::requires_grad_(bool value) {
  for (Tensor& parameter : parameters()) parameter.requires_grad_(value);
}

void Module::to(DType dtype) {
  if (!is_floating(dtype)) {
    throw InvalidArgumentError("Module::to: takes a floating dtype, got ", dtype);
  }
  for (const auto& [name, parameter] : named_parameters()) {
    if (!grad_memory(parameter).defined()) continue;
    throw InvalidArgumentError("Module::to: the gradient of '", name,
                               "' lies in a DistributedOptimizer's memory; convert the module "
                               "before its optimizer is wrapped");
  }
  for (const auto& [name, parameter] : named_parameters()) convert_with_gradient(parameter, dtype);
  for (const auto& [name, buffer] : named_buffers()) {
    if (is_floating(buffer.dtype())) convert(buffer, dtype);
  }
}

void Module::apply(const std::function<void(Module&)>& function) {
  for (const auto& [name, child] : children_) child->apply(function);
  function(*this);
}

Tensor Module::register_parameter(std::string name, Tensor value) {
  check_name(name);
  if (!value.defined()) throw InvalidArgumentError("parameter '", name, "' is undefined");
  make_parameter(value);
  parameters_.emplace_back(std::move(name), value);
  return value;
}

Tensor Module::register_buffer(std::string name, Tensor value, bool persistent) {
  check_name(name);
  if (!value.defined()) throw InvalidArgumentError("buffer '", name, "' is undefined");
  buffers_.push_back({std::move(name), value, persistent});
  return value;
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  check_name(name);
  adopt(std::move(name), std::move(module));
}

void Module::adopt(std::string name, std::shared_ptr<Module> module) {
  check_part(*this, name, module);
  module->parent_ = this;
  module->name_ = name;
  children_.emplace_back(std::move(name), std::move(module));
}

Module::Part Module::part(const std::string& name) const {
  if (has_name(parameters_, name)) return Part::kParameter;
  if (has_name(buffers_, name)) return Part::kBuffer;
  return has_name(children_, name) ? Part::kModule : Part::kNone;
}

void Module::unregister(const std::string& name) {
  if (part(name) == Part::kNone) {
    throw InvalidArgumentError("the module has no part named '", name, "'");
  }
  for (const auto& [known, child] : children_) {
    if (known == name) let_go(name, *child);
  }
  erase_name(parameters_, name);
  erase_name(buffers_, name);
  erase_name(children_, name);
}

void Module::let_go(const std::string& name, Module& child) {
  if (child.parent_ == this && child.name_ == name) child.parent_ = nullptr;
}

void Module::replace_parameter(const std::string& name, Tensor value) {
  if (!value.defined()) throw InvalidArgumentError("parameter '", name, "' is undefined");
  Tensor& place = entry_of(parameters_, name);
  make_parameter(value);
  const Tensor old = std::exchange(place, std::move(value));
  parameter_replaced(old, place);
}

void Module::replace_buffer(const std::string& name, Tensor value) {
  if (!value.defined()) throw InvalidArgumentError("buffer '", name, "' is undefined");
  entry_of(buffers_, name) = std::move(value);
}

void Module::replace_module(const std::string& name, std::shared_ptr<Module> module) {
  check_part(*this, name, module);
  std::shared_ptr<Module>& place = entry_of(children_, name);
  let_go(name, *place);
  module->parent_ = this;
  module->name_ = name;
  place = std::move(module);
}

void Module::check_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw InvalidArgumentError("'", name, "' cannot name a part of a module: empty or with '.'");
  }
  if (part(name) != Part::kNone) {
    throw InvalidArgumentError("the module has a part named '", name, "' already");
  }
}

namespace {

std::string indented(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << to_string(module);
}

}  // namespace nn

std::string to_string(const nn::Module& module) {
  const std::string extra = module.extra_repr();
  if (module.named_children().empty()) return module.class_name() + "(" + extra + ")";
  std::string lines = extra.empty() ? "" : "\n" + extra;
  for (const auto& [name, child] : module.named_children()) {
    lines += "\n(" + (name.empty() ? "module" : name) + "): " + to_string(*child);
  }
  return module.class_name() + "(" + nn::indented(lines) + "\n)";
}

}  // namespace hvd
