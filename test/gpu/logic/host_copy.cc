#include "ops/cuda/check.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/copy_types.h"
#include "test/gpu/logic/host_cuda.h"

// copy.cu without CUDA: the same code for each thread, one thread after another.
namespace hvd::engine {
namespace {

struct HostRun {
  cudaStream_t stream;

  template <typename To, typename From, typename Apply>
  void operator()(const CopyLaunch& launch, const Apply& apply) const {
    test::enqueue_on_host(stream, [launch, apply] {
      for (std::uint32_t tile = 0; tile < launch.tiles; ++tile) {
        for (std::int64_t thread = 0; thread < cuda::kThreads; ++thread) {
          cuda::copy_tile<To, From>(launch, tile, thread, apply);
        }
      }
    });
    check_cuda(cudaGetLastError(), "launch of a copy");
  }
};

}  // namespace

void copy_pieces(int /*device*/, cudaStream_t stream, const CopyRule& rule,
                 std::span<const CopyPiece> pieces) {
  cuda::run_copy(rule, pieces, HostRun{stream});
}

}  // namespace hvd::engine
