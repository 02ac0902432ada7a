#include "ops/nccl_library.h"

#include "ops/module_file.h"

namespace hvd {
namespace {

NcclLibrary find_and_open(const std::string& build_folder) {
  const ModuleFile file =
      open_module({kNcclModuleFile, kNcclModuleSymbol, build_folder, "build with -DHVD_CUDA=ON"});
  if (file.function == nullptr) return {nullptr, file.detail};
  return {reinterpret_cast<NcclModuleFunction>(file.function)(), file.detail};
}

}  // namespace

const NcclLibrary& nccl_library(const std::string& build_folder) {
  static const NcclLibrary library = find_and_open(build_folder);
  return library;
}

}  // namespace hvd
