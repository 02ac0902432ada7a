#include "horovod_cpp/nn/hooks.h"

#include <memory>

#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::nn {
namespace {

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
      const auto entries = alive->backward.entries;  // a hook may remove itself
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

}  // namespace

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

}  // namespace hvd::nn
