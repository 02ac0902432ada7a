#pragma once

#include "horovod_cpp/optim/rules/table.h"
#include "horovod_cpp/tensor/device.h"

// An update of one parameter where it lies: by the table of the instruction set in use, or by the
// arithmetic of its device, with the same bits. All tensors are contiguous, of the parameter's
// shape and device and of the dtype of T; undefined ones are not used.
namespace hvd {
namespace optim {

template <typename T>
T* elements_of(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  return is_on_cpu(tensor) ? tensor.data<T>() : static_cast<T*>(tensor.address());
}

template <typename T>
void apply_sgd(const SgdRule<T>& rule, const Tensor& param, const Tensor& grad,
               const Tensor& buffer) {
  require_same_device("SGD", param, grad);
  const auto run = [&](auto&& update) {
    update(rule, param.numel(), elements_of<T>(param), elements_of<T>(grad),
           elements_of<T>(buffer));
  };
  if (is_on_cpu(param)) return run(update_table().of<T>().sgd);
  run([&](auto... arguments) { arithmetic_of(param).sgd(arguments...); });
}

template <typename T>
void apply_adam(const AdamRule<T>& rule, const Tensor& param, const Tensor& grad,
                const Tensor& mean, const Tensor& square, const Tensor& largest) {
  require_same_device("Adam", param, grad);
  const auto run = [&](auto&& update) {
    update(rule, param.numel(), elements_of<T>(param), elements_of<T>(grad), elements_of<T>(mean),
           elements_of<T>(square), elements_of<T>(largest));
  };
  if (is_on_cpu(param)) return run(update_table().of<T>().adam);
  run([&](auto... arguments) { arithmetic_of(param).adam(arguments...); });
}

}  // namespace optim
}  // namespace hvd
