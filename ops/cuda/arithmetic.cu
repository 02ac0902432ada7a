#include "ops/cuda/arithmetic.h"

#include "ops/cuda/arithmetic_types.h"
#include "ops/cuda/check.h"
#include "ops/cuda/device.h"

namespace hvd::engine {
namespace {

template <typename Apply>
__global__ void __launch_bounds__(cuda::kThreads)
    each_kernel(const std::int64_t count, const __grid_constant__ Apply apply) {
  cuda::each_of_tile(count, blockIdx.x, threadIdx.x, apply);
}

struct Launcher {
  int device;
  cudaStream_t stream;

  template <typename Apply>
  void operator()(std::int64_t count, const Apply& apply) const {
    const CudaDeviceScope scope(device);
    each_kernel<<<cuda::tiles_of(count), cuda::kThreads, 0, stream>>>(count, apply);
    check_cuda(cudaGetLastError(), "launch of a tensor operation");
  }
};

}  // namespace

std::unique_ptr<DeviceArithmetic> make_cuda_arithmetic(int device, cudaStream_t stream,
                                                       DeviceMemory& memory) {
  return std::make_unique<cuda::Arithmetic<Launcher>>(Launcher{device, stream}, device, memory);
}

}  // namespace hvd::engine
