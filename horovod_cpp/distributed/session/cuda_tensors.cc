// What tensor/device.h asks of the module of GPUs.
#include "horovod_cpp/tensor/device.h"
#include "ops/connect/backends.h"

namespace hvd {
namespace {

CudaTensors find() {
  const engine::NcclLibrary& library = engine::nccl_library();
  if (library.module == nullptr) return {nullptr, library.detail};
  return {&library.module->memory(), library.detail};
}

bool registered() {
  register_cuda_tensors(find);
  return true;
}

}  // namespace
}  // namespace hvd

// Whoever links hvd::horovod_cpp asks the linker for this name (horovod_cpp/CMakeLists.txt):
// nothing else would take this file out of its library.
extern "C" {
bool hvd_cuda_tensors_registered = hvd::registered();
}
