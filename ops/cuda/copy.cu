#include "ops/cuda/copy.h"

#include "ops/cuda/check.h"
#include "ops/cuda/copy_types.h"
#include "ops/cuda/device.h"

namespace hvd::engine {
namespace {

template <typename To, typename From, typename Apply>
__global__ void __launch_bounds__(cuda::kThreads)
    copy_kernel(const __grid_constant__ CopyLaunch launch, const Apply apply) {
  cuda::copy_tile<To, From>(launch, blockIdx.x, threadIdx.x, apply);
}

struct Launcher {
  cudaStream_t stream;

  template <typename To, typename From, typename Apply>
  void operator()(const CopyLaunch& launch, const Apply& apply) const {
    copy_kernel<To, From><<<launch.tiles, cuda::kThreads, 0, stream>>>(launch, apply);
    check_cuda(cudaGetLastError(), "launch of a copy");
  }
};

}  // namespace

void copy_pieces(int device, cudaStream_t stream, const CopyRule& rule,
                 std::span<const CopyPiece> pieces) {
  const CudaDeviceScope scope(device);
  cuda::run_copy(rule, pieces, Launcher{stream});
}

}  // namespace hvd::engine
