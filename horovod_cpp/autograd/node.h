#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/tensor/tensor.h"

// The graph. Tensors made by recorded operations point to their Node, nodes point to the nodes and
// leaves their inputs came from, nothing points back: dropping the result drops the graph.
namespace hvd::autograd {

struct Node;

// Where a gradient goes: to the node that made an input, to a leaf, or (both empty) nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  Tensor leaf;

  bool wanted() const { return node != nullptr || leaf.defined(); }
  const void* key() const { return node ? static_cast<const void*>(node.get()) : leaf.id(); }
};

// Gradients of the inputs, of their shapes and dtypes, given that of the result. Undefined where
// the edge wants none (it may also be given there; it is ignored).
using Backward = std::function<std::vector<Tensor>(const Tensor& gradient)>;

// How often an operation can be differentiated. kAny: its Backward is made of recorded functions
// alone. kOnce: it computes outside the graph, and a second derivative throws naming it.
enum class Order { kOnce, kAny };

// One recorded operation with one result.
struct Node {
  const char* name;
  std::vector<Edge> inputs;
  Backward backward;  // empty once the graph was freed
  Shape shape;        // of the result
  DType dtype;
  std::uint64_t sequence;  // grows with every recorded operation
  Order order;
  // It keeps no values, and several graphs have it in common: none of them frees it.
  bool shared = false;
};

// Hooks of one kind in the order they were added. They are called from a copy: a hook may remove
// itself or others.
template <typename Hook>
struct HookList {
  std::vector<std::pair<std::uint64_t, Hook>> entries;
  std::uint64_t last = 0;
};
using LeafHooks = HookList<std::function<void(const Tensor& leaf)>>;

// Returns what removes the hook, as long as the owner lives.
template <typename Owner, typename Hook>
std::function<void()> add_hook(const std::shared_ptr<Owner>& owner, HookList<Hook> Owner::*list,
                               std::type_identity_t<Hook> hook) {
  HookList<Hook>& hooks = owner.get()->*list;
  const std::uint64_t id = ++hooks.last;
  hooks.entries.emplace_back(id, std::move(hook));
  return [weak = std::weak_ptr(owner), list, id] {
    if (const auto alive = weak.lock()) {
      std::erase_if((alive.get()->*list).entries,
                    [&](const auto& entry) { return entry.first == id; });
    }
  };
}

// A tensor's place in the graph.
struct Record {
  bool requires_grad = false;
  bool is_parameter = false;   // of a module, also while it is frozen
  std::shared_ptr<Node> node;  // null for a leaf
  Tensor grad;
  std::vector<RowGradient> rows;  // belong to the gradient too (row_gradient.h)
  bool expects_rows = false;      // see expect_row_gradients()
  bool rows_arrived = false;      // in this backward pass, which has not called the hooks yet
  Tensor grad_memory;             // of a gradient that is not there yet; undefined = any
  std::shared_ptr<const std::string> grad_lock;  // see set_grad_lock()
  LeafHooks before_hooks;                        // before a pass adds to the gradient
  LeafHooks hooks;                               // after
};

// A value that backward() needs, with its place in the graph and a check that nothing was written
// into it since.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& value);  // an operand, or a constant
  // The operation's own result, before it is recorded. It knows its node only while that runs, so
  // that no node keeps itself alive.
  static Saved result(const Tensor& value);
  // Throws InvalidArgumentError naming `operation` if the memory was modified in place.
  Tensor get(const char* operation) const;

 private:
  Tensor value_;
  std::uint64_t version_ = 0;
  bool is_result_ = false;
};

// What this thread runs the Backward of; null if nothing.
const std::shared_ptr<Node>*& running_node();

bool requires_grad(const Tensor& tensor);

// Whether the backward pass of this thread ends at the leaves' grad(), without a graph of its own.
bool& delivers_to_leaves();

// Whether the pass that runs may call deliver_rows() instead of returning a gradient.
bool takes_rows(const Tensor& leaf);
// add_row_gradient() by a Backward: the leaf's hooks hear of it as of any gradient.
void deliver_rows(const Tensor& leaf, const Tensor& rows, const Tensor& values);

// Calls `hook` before a backward pass adds to the leaf's gradient, as often as it does, until the
// function that is returned is called: what is there may be moved away then. The leaf requires
// grad.
[[nodiscard]] std::function<void()> before_delivery(const Tensor& leaf,
                                                    std::function<void(const Tensor& leaf)> hook);
// For what adds to it.
void call_hooks(const LeafHooks& hooks, const Tensor& leaf);

// Adds the leaf's rows to its dense gradient.
void make_dense(const Tensor& leaf);
// Throws InvalidArgumentError if set_grad_lock() says so.
void require_unlocked(const Record& place);

// Whether an operation on these is to be recorded.
bool should_record(std::initializer_list<const Tensor*> inputs);

// Throws InvalidArgumentError if a recorded `function` would take `given` for a constant though it
// requires grad.
void require_constant(const Tensor& given, const char* function, const char* argument);

// Makes `result`, a fresh unrecorded tensor (or one that the operation wrote into, see
// in_place.cc), the result of an operation; returns it. Call only if should_record().
Tensor record(Tensor result, const char* name, std::vector<Edge> inputs, Backward backward,
              Order order = Order::kOnce);

Edge edge_to(const Tensor& input);

}  // namespace hvd::autograd
