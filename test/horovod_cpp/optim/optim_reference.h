#pragma once

#include <map>
#include <stdexcept>
#include <string>

#include "horovod_cpp/io/safetensors.h"

namespace hvd {

inline std::string optim_reference_path() {
  return std::string(HVD_REFERENCE_FOLDER) + "/optim.safetensors";
}

// A tensor that test/support/reference/optim.py stored.
inline Tensor optim_reference(const std::string& name) {
  static const auto* const tensors = [] {
    auto* loaded = new std::map<std::string, Tensor>;
    for (auto& [key, tensor] : io::load(optim_reference_path()).tensors)
      loaded->emplace(key, tensor);
    return loaded;
  }();
  const auto found = tensors->find(name);
  if (found == tensors->end()) throw std::out_of_range("optim.safetensors has no " + name);
  return found->second;
}

}  // namespace hvd
