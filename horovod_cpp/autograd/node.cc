#include "horovod_cpp/autograd/node.h"

#include <mutex>
#include <set>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/function.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace autograd {
namespace {

std::atomic<std::uint64_t> next_sequence{0};

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
    throw InvalidArgumentError("backward of ", operation, " needs a tensor (shape ", value_.shape(),
                               ") that was modified in place after it was used");
  }
  if (!is_result_ || running_node() == nullptr || !grad_enabled()) return value_;
  Tensor recorded = kernels::alias(value_);
  recorded.record() = std::make_shared<Record>();
  recorded.record()->requires_grad = true;
  recorded.record()->node = *running_node();
  return recorded;
}

const std::shared_ptr<Node>*& running_node() {
  thread_local const std::shared_ptr<Node>* running = nullptr;
  return running;
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
  throw InvalidArgumentError(function, ": not differentiable with respect to ", argument,
                             ", which requires grad; give ", argument, ".detach()");
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

}  // namespace autograd

namespace {

using autograd::Saved;

// Nodes point to their names, which live as long as the process.
const char* kept_name(const std::string& name) {
  static std::mutex mutex;
  static auto* const names = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

bool wants_graph(const std::vector<Tensor>& inputs) {
  for (const Tensor& input : inputs) {
    if (autograd::should_record({&input})) return true;
  }
  return false;
}

}  // namespace

Tensor AutogradContext::record(const std::shared_ptr<AutogradContext>& context, Tensor result,
                               const std::vector<Tensor>& inputs, Backward backward) {
  const char* const name = kept_name(context->name_);
  const std::vector<Tensor> to_save = std::move(context->to_save_);
  if (!result.defined()) {
    throw InvalidArgumentError(name, ": forward returned no tensor");
  }
  if (!wants_graph(inputs) || !is_floating(result.dtype())) return result;
  std::vector<Saved> saved;
  for (const Tensor& tensor : to_save) {
    saved.push_back(tensor.is(result) ? Saved::result(tensor) : Saved(tensor));
  }
  // Forward may have given an operand itself, which stays what it was.
  for (const Tensor& input : inputs) {
    if (input.is(result)) result = kernels::alias(result);
  }
  context->saved_ = [saved = std::move(saved), name] {
    std::vector<Tensor> tensors;
    for (const Saved& each : saved) tensors.push_back(each.get(name));
    return tensors;
  };
  std::vector<autograd::Edge> edges;
  for (const Tensor& input : inputs) edges.push_back(autograd::edge_to(input));
  const std::size_t count = inputs.size();
  return autograd::record(
      std::move(result), name, std::move(edges),
      [context, backward = std::move(backward), count, name](const Tensor& gradient) {
        std::vector<Tensor> gradients = backward(*context, gradient);
        if (gradients.size() != count) {
          throw InvalidArgumentError(name, ": backward gave ", gradients.size(), " gradients for ",
                                     count, " tensors");
        }
        return gradients;
      },
      autograd::Order::kAny);
}

}  // namespace hvd
