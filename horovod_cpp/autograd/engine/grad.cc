#include "horovod_cpp/autograd/engine/grad.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/device.h"
#include "horovod_cpp/tensor/layout.h"

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

}  // namespace

void gradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
               const std::vector<Tensor>& inputs, double eps, double tolerance) {
  std::vector<Tensor> checked;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    if (!input.requires_grad()) continue;
    refuse_expanded(input, ("gradcheck: input " + std::to_string(i)).c_str());
    if (input.dtype() != DType::kF64 || !input.is_leaf()) {
      throw InvalidArgumentError("gradcheck: inputs that require grad are float64 leaves");
    }
    checked.push_back(input);
  }
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
      if (!(std::abs(given[i] - expected) <= tolerance * std::max(1.0, std::abs(expected)))) {
        throw InvalidArgumentError("gradcheck: input " + std::to_string(which) + ", element " +
                                   std::to_string(i) + ": backward gives " +
                                   std::to_string(given[i]) + ", differences give " +
                                   std::to_string(expected));
      }
    }
  }
}

void gradgradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
                   const std::vector<Tensor>& inputs, double eps, double tolerance) {
  const auto first_derivatives = [&](const std::vector<Tensor>& given) {
    const EnableGradGuard recorded;  // also where only the value is asked for
    std::vector<Tensor> checked;
    Tensor total = Tensor::scalar(0.0, DType::kF64);
    for (const Tensor& input : given) {
      if (!input.requires_grad()) continue;
      checked.push_back(input);
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
