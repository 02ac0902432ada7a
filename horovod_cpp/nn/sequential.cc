#include "horovod_cpp/nn/sequential.h"

#include <string>

#include "core/base/status.h"

namespace hvd {
namespace nn {

Sequential::Sequential(const std::vector<std::shared_ptr<Module>>& modules) {
  for (const std::shared_ptr<Module>& module : modules) push_back(module);
}

void Sequential::push_back(std::shared_ptr<Module> module) {
  register_module(std::to_string(size()), std::move(module));
}

void Sequential::assign(const std::vector<std::shared_ptr<Module>>& modules) {
  for (std::size_t i = size(); i > 0; --i) unregister(std::to_string(i - 1));
  for (const std::shared_ptr<Module>& module : modules) push_back(module);
}

const std::shared_ptr<Module>& Sequential::at(std::size_t index) const {
  if (index >= size()) {
    throw InvalidArgumentError("module " + std::to_string(index) + " of a Sequential of " +
                               std::to_string(size()));
  }
  return named_children()[index].second;
}

Tensor Sequential::forward(const Tensor& input) {
  Tensor value = input;
  for (const auto& [name, module] : named_children()) value = (*module)(value);
  return value;
}

}  // namespace nn
}  // namespace hvd
