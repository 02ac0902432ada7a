#pragma once

#include <concepts>

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace models {

// Calls `function` on every `Layer` below `model`, in the order of registration.
template <std::derived_from<nn::Module> Layer, std::invocable<Layer&> Function>
void for_each_layer(const nn::Module& model, const Function& function) {
  for (const auto& entry : model.named_descendants()) {
    if (auto* layer = dynamic_cast<Layer*>(entry.second.get())) function(*layer);
  }
}

}  // namespace models
}  // namespace hvd
