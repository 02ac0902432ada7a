#include "horovod_cpp/autograd/engine/grad.h"

#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/tensor/device.h"

namespace hvd {
namespace {

autograd::Root root_of(const Tensor& output, const Tensor& gradient, const char* function) {
  const auto fail = [&](const std::string& what) {
    throw InvalidArgumentError(std::string(function) + ": " + what);
  };
  if (!output.defined()) fail("the output is undefined");
  if (!autograd::requires_grad(output)) {
    fail("a tensor of shape " + to_string(output.shape()) +
         " does not require grad and has no graph");
  }
  if (!gradient.defined()) {
    if (output.numel() != 1) {
      fail("shape " + to_string(output.shape()) +
           " has more than one element, so a gradient must be given");
    }
    return {output, Tensor::ones(output.shape(), output.dtype(), output.device())};
  }
  if (gradient.shape() != output.shape() || gradient.dtype() != output.dtype()) {
    fail("gradient " + to_string(gradient.shape()) + " " + std::string(name_of(gradient.dtype())) +
         " for an output " + to_string(output.shape()) + " " +
         std::string(name_of(output.dtype())));
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
    throw InvalidArgumentError("grad: " + std::to_string(outputs.size()) + " outputs, " +
                               std::to_string(grad_outputs.size()) + " gradients");
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

}  // namespace hvd
