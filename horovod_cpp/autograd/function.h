#pragma once

#include <any>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// What a custom function's forward leaves for its backward.
class AutogradContext {
 public:
  explicit AutogradContext(std::string name) : name_(std::move(name)) {}
  AutogradContext(const AutogradContext&) = delete;
  AutogradContext& operator=(const AutogradContext&) = delete;

  // In forward: operands, the result or constants that backward needs.
  void save_for_backward(std::vector<Tensor> tensors) { to_save_ = std::move(tensors); }
  // In backward: the same. Throws InvalidArgumentError naming the function if one was modified in
  // place since.
  std::vector<Tensor> saved_tensors() const { return saved_(); }
  // Anything else to be kept.
  std::any data;

  using Backward = std::function<std::vector<Tensor>(AutogradContext&, const Tensor& gradient)>;
  // What Function and the Python package are made of: records `result`, which forward returned for
  // `inputs` outside the graph, as the result of the function. `backward` gives a gradient for each
  // input, undefined for none; another number of them throws InvalidArgumentError.
  static Tensor record(const std::shared_ptr<AutogradContext>& context, Tensor result,
                       const std::vector<Tensor>& inputs, Backward backward);

 private:
  std::string name_;
  std::vector<Tensor> to_save_;
  std::function<std::vector<Tensor>()> saved_;
};

// A differentiable function of your own:
//
//   struct Cube : Function<Cube> {
//     static constexpr const char* kName = "Cube";
//     static Tensor forward(AutogradContext& context, const Tensor& x) {
//       context.save_for_backward({x});
//       return x * x * x;
//     }
//     static std::vector<Tensor> backward(AutogradContext& context, const Tensor& gradient) {
//       const Tensor x = context.saved_tensors()[0];
//       return {gradient * x * x * 3.0};
//     }
//   };
//   Tensor y = Cube::apply(x);
//
// forward runs outside the graph and takes any arguments; backward gives one gradient for each
// Tensor among them, in their order, of its shape and dtype, undefined for none. It may be
// differentiated again where it consists of differentiable functions.
template <typename Derived>
class Function {
 public:
  template <typename... Arguments>
  static Tensor apply(const Arguments&... arguments) {
    const auto context = std::make_shared<AutogradContext>(Derived::kName);
    std::vector<Tensor> inputs;
    (collect(inputs, arguments), ...);
    Tensor result;
    {
      const NoGradGuard no_grad;
      result = Derived::forward(*context, arguments...);
    }
    return AutogradContext::record(context, std::move(result), inputs, &Derived::backward);
  }

 private:
  template <typename Argument>
  static void collect(std::vector<Tensor>& inputs, const Argument& argument) {
    if constexpr (std::is_same_v<Argument, Tensor>) inputs.push_back(argument);
  }
};

}  // namespace hvd
