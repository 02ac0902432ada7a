#pragma once

#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

#include "horovod_cpp/io/safetensors.h"

// What the generators of test/support/reference wrote, <theme>.safetensors each: the stored files,
// or those in the folder HVD_REFERENCE_DIR, which live.sh there makes with a PyTorch at hand.
namespace hvd {

inline std::string reference_path(const std::string& theme) {
  const char* const live = std::getenv("HVD_REFERENCE_DIR");
  return std::string(live != nullptr ? live : HVD_REFERENCE_FOLDER) + "/" + theme + ".safetensors";
}

// Loaded once; tests run in one thread.
inline const io::StateFile& reference_file(const std::string& theme) {
  static std::map<std::string, io::StateFile> loaded;
  auto found = loaded.find(theme);
  if (found == loaded.end()) found = loaded.emplace(theme, io::load(reference_path(theme))).first;
  return found->second;
}

inline Tensor reference_tensor(const std::string& theme, const std::string& name) {
  for (const auto& [known, tensor] : reference_file(theme).tensors) {
    if (known == name) return tensor;
  }
  throw std::out_of_range("no tensor " + name + " in " + reference_path(theme));
}

}  // namespace hvd
