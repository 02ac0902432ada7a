#include "ops/cuda/arithmetic.h"
#include "ops/cuda/arithmetic_types.h"
#include "test/gpu/logic/host_cuda.h"

// arithmetic.cu without CUDA: the same code for each thread, one thread after another.
namespace hvd::engine {
namespace {

struct HostRun {
  cudaStream_t stream;

  template <typename Apply>
  void operator()(std::int64_t count, const Apply& apply) const {
    test::enqueue_on_host(stream, [count, apply] {
      for (unsigned tile = 0; tile < cuda::tiles_of(count); ++tile) {
        for (unsigned thread = 0; thread < cuda::kThreads; ++thread) {
          cuda::each_of_tile(count, tile, thread, apply);
        }
      }
    });
  }
};

}  // namespace

std::unique_ptr<DeviceArithmetic> make_cuda_arithmetic(int device, cudaStream_t stream,
                                                       DeviceMemory& memory) {
  return std::make_unique<cuda::Arithmetic<HostRun>>(HostRun{stream}, device, memory);
}

}  // namespace hvd::engine
