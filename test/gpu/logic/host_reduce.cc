#include "ops/cuda/check.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/reduce_types.h"
#include "test/gpu/logic/host_cuda.h"

// reduce.cu without CUDA, as host_copy.cc.
namespace hvd::engine {
namespace {

struct HostRun {
  cudaStream_t stream;
  const ReduceInputs& inputs;

  template <typename T, typename Combine>
  void operator()(const CopyLaunch& launch, const Combine& combine) const {
    test::enqueue_on_host(stream, [launch, combine, all = inputs] {
      for (std::uint32_t tile = 0; tile < launch.tiles; ++tile) {
        for (std::int64_t thread = 0; thread < cuda::kThreads; ++thread) {
          cuda::reduce_tile<T>(launch, all, tile, thread, combine);
        }
      }
    });
    check_cuda(cudaGetLastError(), "launch of a reduction");
  }
};

}  // namespace

void reduce_pieces(int /*device*/, cudaStream_t stream, DType dtype, const Reduction& reduction,
                   const ReduceInputs& inputs, std::span<const CopyPiece> pieces) {
  cuda::run_reduce(dtype, reduction, inputs, pieces, HostRun{stream, inputs});
}

}  // namespace hvd::engine
