#include "ops/connect/nccl_library.h"

#include "ops/connect/module_file.h"

namespace hvd {
namespace {

NcclLibrary open_nccl() {
  const ModuleFile file = open_module(
      {kNcclModuleFile, kNcclModuleSymbol, kNcclModuleBuild, "build with -DHVD_CUDA=ON"});
  if (file.function == nullptr) return {nullptr, file.detail};
  return {reinterpret_cast<NcclModuleFunction>(file.function)(), file.detail};
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = open_nccl();
  return library;
}

}  // namespace hvd
