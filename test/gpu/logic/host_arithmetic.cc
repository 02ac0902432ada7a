#include "ops/cuda/arithmetic.h"
#include "ops/cuda/arithmetic_types.h"

// arithmetic.cu without CUDA: the same code for each thread, one thread after another.
namespace hvd {
namespace {

struct HostRun {
  template <typename Apply>
  void operator()(std::int64_t count, const Apply& apply) const {
    for (unsigned tile = 0; tile < cuda::tiles_of(count); ++tile) {
      for (unsigned thread = 0; thread < cuda::kThreads; ++thread) {
        cuda::each_of_tile(count, tile, thread, apply);
      }
    }
  }
};

}  // namespace

std::unique_ptr<DeviceArithmetic> make_cuda_arithmetic(int device, cudaStream_t,
                                                       DeviceMemory& memory) {
  return std::make_unique<cuda::Arithmetic<HostRun>>(HostRun{}, device, memory);
}

}  // namespace hvd
