#include "ops/cuda/reduce.h"

#include "ops/cuda/check.h"
#include "ops/cuda/device.h"
#include "ops/cuda/reduce_types.h"

namespace hvd::engine {
namespace {

template <typename T, typename Combine>
__global__ void __launch_bounds__(cuda::kThreads)
    reduce_kernel(const __grid_constant__ CopyLaunch launch,
                  const __grid_constant__ ReduceInputs inputs, const Combine combine) {
  cuda::reduce_tile<T>(launch, inputs, blockIdx.x, threadIdx.x, combine);
}

struct Launcher {
  cudaStream_t stream;
  const ReduceInputs& inputs;

  template <typename T, typename Combine>
  void operator()(const CopyLaunch& launch, const Combine& combine) const {
    reduce_kernel<T><<<launch.tiles, cuda::kThreads, 0, stream>>>(launch, inputs, combine);
    check_cuda(cudaGetLastError(), "launch of a reduction");
  }
};

}  // namespace

void reduce_pieces(int device, cudaStream_t stream, DType dtype, const Reduction& reduction,
                   const ReduceInputs& inputs, std::span<const CopyPiece> pieces) {
  const CudaDeviceScope scope(device);
  cuda::run_reduce(dtype, reduction, inputs, pieces, Launcher{stream, inputs});
}

}  // namespace hvd::engine
