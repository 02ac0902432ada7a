// What tensor/device.h asks of the module of GPUs.
#include "horovod_cpp/tensor/device.h"
#include "ops/connect/backends.h"

namespace hvd {

const CudaTensors& cuda_tensors() {
  static const CudaTensors found = [] {
    const NcclLibrary& library = gpu_library();
    if (library.module == nullptr) return CudaTensors{nullptr, library.detail};
    return CudaTensors{&library.module->memory(), library.detail};
  }();
  return found;
}

}  // namespace hvd
