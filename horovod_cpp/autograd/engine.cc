#include "horovod_cpp/autograd/engine.h"

#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "core/base/status.h"
#include "horovod_cpp/autograd/after_backward.h"
#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/kernels/channels_last.h"
#include "horovod_cpp/tensor/kernels/copy.h"
#include "horovod_cpp/tensor/kernels/elementwise.h"

namespace hvd {
namespace autograd {
namespace {

// Nobody else sees this gradient, so it may be written into or kept.
bool ours(const Tensor& gradient) {
  return is_sole_owner(gradient) &&
         (gradient.is_contiguous() || kernels::is_channels_last(gradient));
}

void deliver(const Tensor& leaf, Tensor gradient) {
  const std::shared_ptr<Record> place = leaf.record();
  if (place->grad.defined()) {  // in place: it may be part of a communication buffer
    kernels::add_into(place->grad, gradient, 1.0);
  } else if (place->grad_memory.defined()) {
    kernels::copy_into(place->grad_memory, gradient);
    place->grad = place->grad_memory;
  } else {
    place->grad = ours(gradient) ? std::move(gradient) : kernels::clone(gradient);
  }
  const std::vector<Hook> hooks = place->hooks;  // a hook may remove itself
  for (const Hook& hook : hooks) hook.call(leaf);
}

struct Later {
  bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
    return a->sequence < b->sequence;
  }
};

class Pass {
 public:
  Pass(const std::vector<Root>& roots, const std::vector<Tensor>* wanted, bool retain)
      : accumulate_(wanted == nullptr), retain_(retain) {
    if (wanted != nullptr) {
      for (const Tensor& tensor : *wanted) {
        const Edge edge = edge_to(tensor);
        if (edge.wanted()) captured_.emplace(edge.key(), Tensor());
      }
    }
    std::vector<Edge> starts;
    for (const Root& root : roots) {
      starts.push_back(edge_to(root.tensor));
      ++waiting_[starts.back().key()];
    }
    count_dependencies(starts);
    for (std::size_t i = 0; i < roots.size(); ++i) arrive(starts[i], roots[i].gradient);
  }

  void run() {
    while (!ready_.empty()) {
      const std::shared_ptr<Node> node = ready_.top();
      ready_.pop();
      step(*node);
    }
  }

  Tensor captured(const Tensor& wanted) const {
    const auto found = captured_.find(edge_to(wanted).key());
    return found == captured_.end() ? Tensor() : found->second;
  }

 private:
  // How many edges lead to each node and leaf; throws before anything changed if one was freed.
  void count_dependencies(const std::vector<Edge>& starts) {
    std::vector<const Node*> todo;
    std::unordered_set<const Node*> seen;
    const auto visit = [&](const Edge& edge) {
      if (edge.node && seen.insert(edge.node.get()).second) todo.push_back(edge.node.get());
    };
    for (const Edge& start : starts) visit(start);
    while (!todo.empty()) {
      const Node* node = todo.back();
      todo.pop_back();
      if (!node->backward) {
        throw InvalidArgumentError(
            std::string("backward: the graph of ") + node->name +
            " was freed by an earlier backward(); pass retain_graph=true to the first");
      }
      for (const Edge& edge : node->inputs) {
        if (!edge.wanted()) continue;
        ++waiting_[edge.key()];
        visit(edge);
      }
    }
  }

  void step(Node& node) {
    Tensor gradient = take(&node);
    keep_if_captured(&node, gradient);
    std::vector<Tensor> results(node.inputs.size());
    if (gradient.defined()) results = node.backward(gradient);
    gradient = {};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].wanted()) arrive(node.inputs[i], std::move(results[i]));
    }
    if (!retain_) {
      node.backward = nullptr;
      node.inputs.clear();
    }
  }

  // One contribution (perhaps none) to a node's or leaf's gradient.
  void arrive(const Edge& edge, Tensor contribution) {
    const void* key = edge.key();
    if (contribution.defined()) {
      Tensor& sum = sums_[key];
      if (!sum.defined()) {
        sum = std::move(contribution);
      } else if (ours(sum)) {
        kernels::add_into(sum, contribution, 1.0);
      } else {
        sum = kernels::binary(kernels::Binary::kAdd, sum, contribution, "backward");
      }
    }
    if (--waiting_[key] > 0) return;
    if (edge.node) {
      ready_.push(edge.node);
      return;
    }
    Tensor gradient = take(key);
    keep_if_captured(key, gradient);
    if (accumulate_ && gradient.defined()) deliver(edge.leaf, std::move(gradient));
  }

  Tensor take(const void* key) {
    const auto found = sums_.find(key);
    if (found == sums_.end()) return {};
    Tensor gradient = std::move(found->second);
    sums_.erase(found);
    return gradient;
  }

  void keep_if_captured(const void* key, const Tensor& gradient) {
    const auto found = captured_.find(key);
    if (found != captured_.end()) found->second = gradient;
  }

  const bool accumulate_;
  const bool retain_;
  std::unordered_map<const void*, std::int64_t> waiting_;  // contributions still to come
  std::unordered_map<const void*, Tensor> sums_;
  std::unordered_map<const void*, Tensor> captured_;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Later> ready_;
};

}  // namespace

void backward(const std::vector<Root>& roots, bool retain_graph) {
  const NoGradGuard no_grad;
  const DeliveryScope delivers(true);
  AfterBackward after;
  Pass(roots, nullptr, retain_graph).run();
  after.run();
}

std::vector<Tensor> gradients(const std::vector<Root>& roots, const std::vector<Tensor>& wanted,
                              bool retain_graph) {
  const NoGradGuard no_grad;
  const DeliveryScope keeps(false);
  Pass pass(roots, &wanted, retain_graph);
  pass.run();
  std::vector<Tensor> result;
  for (const Tensor& tensor : wanted) result.push_back(pass.captured(tensor));
  return result;
}

}  // namespace autograd
}  // namespace hvd
