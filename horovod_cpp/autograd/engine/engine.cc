#include "horovod_cpp/autograd/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/scoped.h"
#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_memory.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/impl.h"
#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
namespace {

std::atomic<bool> looking{false};

}  // namespace

void set_detect_anomaly(bool enabled) noexcept {
  looking.store(enabled, std::memory_order_relaxed);
}

bool anomaly_enabled() noexcept {
  return looking.load(std::memory_order_relaxed);
}

namespace autograd {
namespace {

// What is to be called after one backward(). Passes of a thread nest.
struct AfterBackward {
  std::uint64_t pass;  // the number of the outermost one
  std::vector<std::pair<const void*, std::function<void()>>> calls;
};

thread_local AfterBackward* current = nullptr;
thread_local std::uint64_t passes = 0;

// Nothing else sees this gradient, so it may be written into or kept.
bool ours(const Tensor& gradient) {
  return is_sole_owner(gradient) &&
         (gradient.is_contiguous() || kernels::is_channels_last(gradient));
}

// What arrived besides rows; undefined: nothing.
void deliver(const Tensor& leaf, Tensor gradient, bool create_graph) {
  const std::shared_ptr<Record> place = leaf.record();
  place->rows_arrived = false;
  if (gradient.defined() && !place->before_hooks.entries.empty()) {
    const NoGradGuard no_grad;
    call_hooks(place->before_hooks, leaf);
  }
  if (!gradient.defined()) {
    // Rows alone: they are in their place.
  } else if (create_graph) {
    place->grad = place->grad.defined() ? add(place->grad, gradient) : std::move(gradient);
  } else if (place->grad.defined() && is_expanded(place->grad)) {  // that the user set
    place->grad = kernels::binary(kernels::Binary::kAdd, place->grad, gradient, "backward");
  } else if (place->grad.defined()) {  // in place: it may be part of a communication buffer
    kernels::add_into(place->grad, gradient, 1.0);
  } else if (place->grad_memory.defined()) {
    if (!gradient.is(place->grad_memory)) kernels::copy_into(place->grad_memory, gradient);
    place->grad = place->grad_memory;
  } else {
    place->grad = ours(gradient) ? std::move(gradient) : kernels::clone(gradient);
  }
  const NoGradGuard no_grad;
  call_hooks(place->hooks, leaf);
}

// The Backward of an operation that can be differentiated once: outside the graph, and whoever
// differentiates its results is told.
std::vector<Tensor> run_once(const Node& node, const Tensor& gradient) {
  std::vector<Tensor> results;
  {
    const NoGradGuard no_grad;
    results = node.backward(gradient);
  }
  std::vector<Edge> inputs = node.inputs;
  inputs.push_back(edge_to(gradient));
  const auto refuse = [name = node.name](const Tensor&) -> std::vector<Tensor> {
    throw InvalidArgumentError("backward of ", name, " cannot be differentiated: ", name,
                               " has no second derivative here");
  };
  for (Tensor& result : results) {
    if (result.defined()) result = record(kernels::alias(result), node.name, inputs, refuse);
  }
  return results;
}

void refuse_nan(const Node& node, const std::vector<Tensor>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || !node.inputs[i].wanted() || !kernels::has_nan(results[i])) {
      continue;
    }
    throw InvalidArgumentError("backward of ", node.name, ", result shape ", node.shape,
                               ", gave a NaN in the gradient of input ", i);
  }
}

// What functions and hooks written elsewhere return may be anything.
void refuse_misfits(const Node& node, const std::vector<Tensor>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor& result = results[i];
    const Edge& input = node.inputs[i];
    if (!result.defined() || !input.wanted()) continue;
    const Shape& shape = input.node ? input.node->shape : input.leaf.shape();
    const DType dtype = input.node ? input.node->dtype : input.leaf.dtype();
    if (result.shape() == shape && result.dtype() == dtype) continue;
    throw InvalidArgumentError("backward of ", node.name, " gave a gradient ", result.shape(), " ",
                               result.dtype(), " for input ", i, ", which is ", shape, " ", dtype);
  }
}

struct Later {
  bool operator()(const std::shared_ptr<Node>& a, const std::shared_ptr<Node>& b) const {
    return a->sequence < b->sequence;
  }
};

class Pass;

thread_local const Pass* running_pass = nullptr;

class Pass {
 public:
  Pass(const std::vector<Root>& roots, const std::vector<Tensor>* wanted, Options options)
      : accumulate_(wanted == nullptr),
        create_graph_(options.create_graph),
        retain_(options.retain_graph || options.create_graph) {
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
      step(node);
    }
  }

  // See gradient_place().
  Tensor place_for(const Edge& edge) const {
    if (!accumulate_ || create_graph_ || !edge.leaf.defined()) return {};
    const Record& record = *edge.leaf.record();
    const auto waiting = waiting_.find(edge.key());
    const bool whole =
        waiting != waiting_.end() && waiting->second == 1 && !sums_.contains(edge.key());
    return whole && !record.grad.defined() ? record.grad_memory : Tensor();
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
      if (create_graph_ && accumulate_ && edge.leaf.defined() &&
          edge.leaf.record()->grad_memory.defined()) {
        throw InvalidArgumentError("backward: create_graph for a leaf (shape ", edge.leaf.shape(),
                                   ") whose gradient lies in given memory; use grad()");
      }
      if (edge.node && seen.insert(edge.node.get()).second) todo.push_back(edge.node.get());
    };
    for (const Edge& start : starts) visit(start);
    while (!todo.empty()) {
      const Node* node = todo.back();
      todo.pop_back();
      if (!node->backward) {
        throw InvalidArgumentError(
            "backward: the graph of ", node->name,
            " was freed by an earlier backward(); pass retain_graph=true to the first");
      }
      for (const Edge& edge : node->inputs) {
        if (!edge.wanted()) continue;
        ++waiting_[edge.key()];
        visit(edge);
      }
    }
  }

  void step(const std::shared_ptr<Node>& node) {
    Tensor gradient = take(node.get());
    keep_if_captured(node.get(), gradient);
    std::vector<Tensor> results(node->inputs.size());
    if (gradient.defined()) {
      const Scoped running(running_node(), &node);
      const Scoped<const Pass*> in_pass(running_pass, this);
      const bool once = create_graph_ && node->order == Order::kOnce;
      results = once ? run_once(*node, gradient) : node->backward(gradient);
      refuse_misfits(*node, results);
      if (anomaly_enabled()) refuse_nan(*node, results);
    }
    gradient = {};
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      if (node->inputs[i].wanted()) arrive(node->inputs[i], std::move(results[i]));
    }
    if (!retain_ && !node->shared) {
      node->backward = nullptr;
      node->inputs.clear();
    }
  }

  // One contribution (perhaps none) to a node's or leaf's gradient.
  void arrive(const Edge& edge, Tensor contribution) {
    const void* key = edge.key();
    if (contribution.defined()) {
      Tensor& sum = sums_[key];
      if (!sum.defined()) {
        sum = std::move(contribution);
      } else if (create_graph_) {
        sum = add(sum, contribution);
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
    if (accumulate_ && (gradient.defined() || edge.leaf.record()->rows_arrived)) {
      deliver(edge.leaf, std::move(gradient), create_graph_);
    }
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
  const bool create_graph_;
  const bool retain_;
  std::unordered_map<const void*, std::int64_t> waiting_;  // contributions still to come
  std::unordered_map<const void*, Tensor> sums_;
  std::unordered_map<const void*, Tensor> captured_;
  std::priority_queue<std::shared_ptr<Node>, std::vector<std::shared_ptr<Node>>, Later> ready_;
};

}  // namespace

Tensor gradient_place(std::size_t input) {
  if (running_pass == nullptr) return {};
  return running_pass->place_for((*running_node())->inputs.at(input));
}

void backward(const std::vector<Root>& roots, Options options) {
  const AutoGradMode mode(options.create_graph);
  const AutocastGuard as_recorded(autocast_dtype(), false);
  const Scoped delivers(delivers_to_leaves(), !options.create_graph);
  AfterBackward after = {current == nullptr ? ++passes : current->pass, {}};
  const Scoped collects(current, &after);
  Pass(roots, nullptr, options).run();
  const NoGradGuard no_grad;
  const auto calls = std::exchange(after.calls, {});
  for (const auto& [key, function] : calls) function();
}

std::vector<Tensor> gradients(const std::vector<Root>& roots, const std::vector<Tensor>& wanted,
                              Options options) {
  const AutoGradMode mode(options.create_graph);
  const AutocastGuard as_recorded(autocast_dtype(), false);
  const Scoped keeps(delivers_to_leaves(), false);
  Pass pass(roots, &wanted, options);
  pass.run();
  std::vector<Tensor> result;
  for (const Tensor& tensor : wanted) result.push_back(pass.captured(tensor));
  return result;
}

void after_backward(const void* key, std::function<void()> function) {
  if (current == nullptr) return;
  auto& calls = current->calls;
  const bool known =
      std::ranges::any_of(calls, [&](const auto& call) { return call.first == key; });
  if (!known) calls.emplace_back(key, std::move(function));
}

std::uint64_t current_pass() {
  return current == nullptr ? 0 : current->pass;
}

}  // namespace autograd
namespace {

autograd::Root root_of(const Tensor& output, const Tensor& gradient, const char* function) {
  const auto fail = [&](const std::string& what) {
    throw InvalidArgumentError(function, ": ", what);
  };
  if (!output.defined()) fail("the output is undefined");
  if (!autograd::requires_grad(output)) {
    fail(str_cat("a tensor of shape ", output.shape(), " does not require grad and has no graph"));
  }
  if (!gradient.defined()) {
    if (output.numel() != 1) {
      fail(str_cat("shape ", output.shape(),
                   " has more than one element, so a gradient must be given"));
    }
    return {output, Tensor::ones(output.shape(), output.dtype(), output.device())};
  }
  if (gradient.shape() != output.shape() || gradient.dtype() != output.dtype()) {
    fail(str_cat("gradient ", gradient.shape(), " ", gradient.dtype(), " for an output ",
                 output.shape(), " ", output.dtype()));
  }
  require_same_device(function, output, gradient);
  return {output, gradient};
}

}  // namespace

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph) const {
  autograd::backward({root_of(*this, gradient, "backward")}, {retain_graph, create_graph});
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, bool retain_graph,
                         bool create_graph) {
  if (!grad_outputs.empty() && grad_outputs.size() != outputs.size()) {
    throw InvalidArgumentError("grad: ", outputs.size(), " outputs, ", grad_outputs.size(),
                               " gradients");
  }
  for (const Tensor& input : inputs) {
    if (!autograd::requires_grad(input)) {
      throw InvalidArgumentError("grad: an input does not require grad");
    }
  }
  std::vector<autograd::Root> roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    roots.push_back(root_of(outputs[i], grad_outputs.empty() ? Tensor() : grad_outputs[i], "grad"));
  }
  return autograd::gradients(roots, inputs, {retain_graph, create_graph});
}

namespace {

// Weights without symmetry, so that gradients which cancel in a plain sum are seen.
Tensor weights_for(const Tensor& output) {
  Tensor weights = Tensor::empty(output.shape(), output.dtype());
  double* out = weights.data<double>();
  for (std::int64_t i = 0; i < weights.numel(); ++i) {
    out[i] = std::cos(1.7 * static_cast<double>(i) + 0.3);
  }
  return weights;
}

// Sets one element of a tensor of any strides, given its row-major index.
void set_element(const Tensor& tensor, std::int64_t index, double value) {
  std::int64_t offset = 0;
  for (std::int64_t axis = tensor.dim(); axis-- > 0;) {
    offset += index % tensor.size(axis) * tensor.strides()[static_cast<std::size_t>(axis)];
    index /= tensor.size(axis);
  }
  tensor.data<double>()[offset] = value;
}

std::vector<Tensor> requiring_grad(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> found;
  std::ranges::copy_if(inputs, std::back_inserter(found), &Tensor::requires_grad);
  return found;
}

bool are_close(double given, double expected, double tolerance) {  // never a NaN
  return std::abs(given - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

// Operations may have a faster formula for gradients that are not recorded.
void expect_recorded_as_not(const Tensor& output, const std::vector<Tensor>& inputs,
                            double tolerance) {
  const Tensor weights = weights_for(output);
  const std::vector<Tensor> recorded = grad({output}, inputs, {weights}, true, true);
  const std::vector<Tensor> plain = grad({output}, inputs, {weights}, true);
  for (std::size_t which = 0; which < inputs.size(); ++which) {
    if (!recorded[which].defined()) continue;
    const std::vector<double> with = recorded[which].to_vector();
    const std::vector<double> without = plain[which].to_vector();
    for (std::size_t i = 0; i < with.size(); ++i) {
      if (are_close(with[i], without[i], tolerance)) continue;
      throw InvalidArgumentError("gradgradcheck: input ", which, ", element ", i,
                                 ": backward gives ", without[i], ", and ", with[i],
                                 " with create_graph");
    }
  }
}

}  // namespace

void gradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
               const std::vector<Tensor>& inputs, double eps, double tolerance) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    if (!input.requires_grad()) continue;
    refuse_expanded(input, ("gradcheck: input " + std::to_string(i)).c_str());
    if (input.dtype() != DType::kF64 || !input.is_leaf()) {
      throw InvalidArgumentError("gradcheck: inputs that require grad are float64 leaves");
    }
  }
  const std::vector<Tensor> checked = requiring_grad(inputs);
  const Tensor output = function(inputs);
  const Tensor weights = weights_for(output);
  const std::vector<Tensor> analytic = grad({output}, checked, {weights});
  const NoGradGuard no_grad;
  const auto value = [&] { return sum(function(inputs) * weights).item(); };
  for (std::size_t which = 0; which < checked.size(); ++which) {
    const std::vector<double> start = checked[which].to_vector();
    const std::vector<double> given = analytic[which].defined()
                                          ? analytic[which].to_vector()
                                          : std::vector<double>(start.size(), 0.0);
    for (std::size_t i = 0; i < start.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      set_element(checked[which], at, start[i] + eps);
      const double above = value();
      set_element(checked[which], at, start[i] - eps);
      const double below = value();
      set_element(checked[which], at, start[i]);
      const double expected = (above - below) / (2 * eps);
      if (!are_close(given[i], expected, tolerance)) {
        throw InvalidArgumentError("gradcheck: input ", which, ", element ", i, ": backward gives ",
                                   given[i], ", differences give ", expected);
      }
    }
  }
}

void gradgradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
                   const std::vector<Tensor>& inputs, double eps, double tolerance) {
  expect_recorded_as_not(function(inputs), requiring_grad(inputs), tolerance);
  const auto first_derivatives = [&](const std::vector<Tensor>& given) {
    const EnableGradGuard recorded;  // also where only the value is asked for
    const std::vector<Tensor> checked = requiring_grad(given);
    Tensor total = Tensor::scalar(0.0, DType::kF64);
    for (const Tensor& input : checked) {
      total = total + sum(input) * 0.0;  // a graph even where the function is linear
    }
    const Tensor output = function(given);
    const Tensor weights = weights_for(output);
    for (const Tensor& each : grad({output}, checked, {weights}, true, true)) {
      if (each.defined()) total = total + sum(each * weights_for(each) * each);
    }
    return total;
  };
  gradcheck(first_derivatives, inputs, eps, tolerance);
}

}  // namespace hvd
