#include "horovod_cpp/autograd/node.h"

#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::autograd {
namespace {

std::atomic<std::uint64_t> next_sequence{0};
thread_local const std::shared_ptr<Node>* running = nullptr;

// Deletes a node without recursion: what it alone keeps alive is queued while it goes, so a graph
// of any depth needs little stack.
void retire(Node* node) {
  thread_local std::vector<Node*>* queue = nullptr;
  if (queue != nullptr) {
    queue->push_back(node);
    return;
  }
  std::vector<Node*> pending = {node};
  queue = &pending;
  while (!pending.empty()) {
    Node* next = pending.back();
    pending.pop_back();
    delete next;
  }
  queue = nullptr;
}

}  // namespace

Saved::Saved(const Tensor& value) {
  if (!value.defined()) return;
  version_ = version_of(value);
  if (requires_grad(value) && value.is_leaf()) {
    value_ = value;  // a leaf's gradient belongs to the handle itself
    return;
  }
  value_ = kernels::alias(value);  // stays where it is in the graph if `value` is written into
  value_.record() = value.record();
}

Saved Saved::result(const Tensor& value) {
  Saved saved(kernels::alias(value));
  saved.is_result_ = true;
  return saved;
}

Tensor Saved::get(const char* operation) const {
  if (!value_.defined()) return value_;
  if (version_of(value_) != version_) {
    throw InvalidArgumentError(std::string("backward of ") + operation + " needs a tensor (shape " +
                               to_string(value_.shape()) +
                               ") that was modified in place after it was used");
  }
  if (!is_result_ || running == nullptr || !grad_enabled()) return value_;
  Tensor recorded = kernels::alias(value_);
  recorded.record() = std::make_shared<Record>();
  recorded.record()->requires_grad = true;
  recorded.record()->node = *running;
  return recorded;
}

RunningNode::RunningNode(const std::shared_ptr<Node>& node) : previous_(running) {
  running = &node;
}

RunningNode::~RunningNode() {
  running = previous_;
}

bool requires_grad(const Tensor& tensor) {
  return tensor.defined() && tensor.record() != nullptr && tensor.record()->requires_grad;
}

bool should_record(std::initializer_list<const Tensor*> inputs) {
  if (!grad_enabled()) return false;
  for (const Tensor* input : inputs) {
    if (requires_grad(*input)) return true;
  }
  return false;
}

void require_constant(const Tensor& given, const char* function, const char* argument) {
  if (!given.defined() || !should_record({&given})) return;
  throw InvalidArgumentError(std::string(function) + ": not differentiable with respect to " +
                             argument + ", which requires grad; give " + argument + ".detach()");
}

Edge edge_to(const Tensor& input) {
  if (!requires_grad(input)) return {};
  if (input.record()->node != nullptr) return {input.record()->node, {}};
  return {nullptr, substitute_for(input)};
}

Tensor record(Tensor result, const char* name, std::vector<Edge> inputs, Backward backward,
              Order order) {
  auto node = std::shared_ptr<Node>(
      new Node{name, std::move(inputs), std::move(backward), result.shape(), result.dtype(),
               next_sequence.fetch_add(1, std::memory_order_relaxed), order},
      retire);
  auto place = std::make_shared<Record>();
  place->requires_grad = true;
  place->node = std::move(node);
  result.record() = std::move(place);
  return result;
}

}  // namespace hvd::autograd
