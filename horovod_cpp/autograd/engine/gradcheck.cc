#include "horovod_cpp/autograd/engine/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/tensor/expanded.h"

namespace hvd {
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
