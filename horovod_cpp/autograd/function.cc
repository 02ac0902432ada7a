#include "horovod_cpp/autograd/function.h"

#include <mutex>
#include <set>

#include "core/base/status.h"
#include "horovod_cpp/autograd/node.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd {
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
    throw InvalidArgumentError(std::string(name) + ": forward gave no tensor");
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
          throw InvalidArgumentError(std::string(name) + ": backward gave " +
                                     std::to_string(gradients.size()) + " gradients for " +
                                     std::to_string(count) + " tensors");
        }
        return gradients;
      },
      autograd::Order::kAny);
}

}  // namespace hvd
