#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_cpp/tensor/named_tensors.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace nn {

// A layer or a model: named parameters, buffers and sub-modules, and a forward function. Names and
// their order are PyTorch's ("0.weight", "bn.running_mean").
class Module {
 public:
  virtual ~Module() = default;
  virtual Tensor forward(const Tensor& input) = 0;
  Tensor operator()(const Tensor& input) { return forward(input); }

  std::vector<Tensor> parameters() const;
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  // Parameters and buffers; the tensors are the module's own, not copies.
  NamedTensors state_dict() const;
  // Copies values in. Throws InvalidArgumentError naming missing, unexpected or wrongly shaped
  // entries; nothing is changed then.
  void load_state_dict(const NamedTensors& state);

  void train(bool mode = true);
  void eval() { train(false); }
  bool is_training() const { return training_; }
  void zero_grad();
  // Calls `function` on every sub-module, then on this one.
  void apply(const std::function<void(Module&)>& function);

 protected:
  // Returns the registered tensor; parameters require grad.
  Tensor register_parameter(std::string name, Tensor value);
  Tensor register_buffer(std::string name, Tensor value);
  void register_module(std::string name, std::shared_ptr<Module> module);

 private:
  NamedTensors parameters_;
  NamedTensors buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
};

}  // namespace nn
}  // namespace hvd
