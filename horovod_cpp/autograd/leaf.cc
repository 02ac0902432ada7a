// The members of Tensor that concern its place in the graph, and grad_memory.h.
#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

autograd::Record& own_record(const Tensor& tensor) {
  std::shared_ptr<autograd::Record>& place = tensor.record();
  if (place == nullptr) place = std::make_shared<autograd::Record>();
  return *place;
}

void check_gradient(const char* function, const Tensor& leaf, const Tensor& grad) {
  if (!grad.defined()) return;
  if (grad.shape() == leaf.shape() && grad.dtype() == leaf.dtype()) {
    return require_same_device(function, leaf, grad);
  }
  throw InvalidArgumentError(std::string(function) + ": " + to_string(grad.shape()) + " " +
                             std::string(name_of(grad.dtype())) + " for a tensor " +
                             to_string(leaf.shape()) + " " + std::string(name_of(leaf.dtype())));
}

std::function<void()> add_hook(const Tensor& leaf,
                               std::vector<autograd::Hook> autograd::Record::*hooks,
                               std::function<void(const Tensor& leaf)> hook) {
  const std::shared_ptr<autograd::Record> place = leaf.record();
  const std::uint64_t id = place->next_hook++;
  (*place.*hooks).push_back({id, std::move(hook)});
  return [weak = std::weak_ptr(place), hooks, id] {
    if (const auto alive = weak.lock()) {
      std::erase_if(*alive.*hooks, [&](const autograd::Hook& each) { return each.id == id; });
    }
  };
}

}  // namespace

bool Tensor::requires_grad() const {
  return autograd::requires_grad(*this);
}

bool Tensor::is_leaf() const {
  return record() == nullptr || record()->node == nullptr;
}

Tensor& Tensor::requires_grad_(bool value) {
  if (!is_leaf()) {
    throw InvalidArgumentError("requires_grad_: only leaves can change it; use detach()");
  }
  if (value && !is_floating(dtype())) {
    throw InvalidArgumentError("requires_grad_: only floating dtypes have gradients, not " +
                               std::string(name_of(dtype())));
  }
  if (value || record() != nullptr) own_record(*this).requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  if (record() == nullptr) return {};
  autograd::require_unlocked(*record());
  autograd::make_dense(*this);
  return record()->grad;
}

void Tensor::set_grad(Tensor grad) {
  check_gradient("set_grad", *this, grad);
  if (!grad.defined() && record() == nullptr) return;
  autograd::require_unlocked(own_record(*this));
  own_record(*this).grad = std::move(grad);
  record()->rows.clear();
}

Tensor grad_memory(const Tensor& leaf) {
  return leaf.record() == nullptr ? Tensor() : leaf.record()->grad_memory;
}

void set_grad_memory(const Tensor& leaf, Tensor memory) {
  check_gradient("set_grad_memory", leaf, memory);
  if (memory.defined() && !memory.is_contiguous()) {
    throw InvalidArgumentError("set_grad_memory: a tensor of shape " + to_string(memory.shape()) +
                               " that is not contiguous");
  }
  if (!memory.defined() && leaf.record() == nullptr) return;
  own_record(leaf).grad_memory = std::move(memory);
}

std::shared_ptr<const std::string> grad_lock(const Tensor& leaf) {
  return leaf.record() == nullptr ? nullptr : leaf.record()->grad_lock;
}

void set_grad_lock(const Tensor& leaf, std::shared_ptr<const std::string> why) {
  if (why != nullptr || leaf.record() != nullptr) own_record(leaf).grad_lock = std::move(why);
}

std::function<void()> Tensor::register_hook(std::function<void(const Tensor& leaf)> hook) const {
  if (!requires_grad() || !is_leaf()) {
    throw InvalidArgumentError("register_hook: takes a leaf that requires grad");
  }
  return add_hook(*this, &autograd::Record::hooks, std::move(hook));
}

namespace autograd {

void require_unlocked(const Record& place) {
  if (place.grad_lock != nullptr) throw InvalidArgumentError(*place.grad_lock);
}

std::function<void()> before_delivery(const Tensor& leaf,
                                      std::function<void(const Tensor& leaf)> hook) {
  return add_hook(leaf, &Record::before_hooks, std::move(hook));
}

void call_hooks(const std::vector<Hook>& hooks, const Tensor& leaf) {
  std::vector<Hook> calls = hooks;  // a hook may remove itself
  for (Hook& hook : calls) hook.call(leaf);
}

}  // namespace autograd

Tensor Tensor::detach() const {
  return kernels::alias(*this);
}

}  // namespace hvd
