#include "ops/cuda/copy.h"
#include "ops/cuda/copy_types.h"

// copy.cu without CUDA: the same code for each thread, one thread after another.
namespace hvd {
namespace {

struct HostRun {
  template <typename To, typename From, typename Apply>
  void operator()(const CopyLaunch& launch, const Apply& apply) const {
    for (std::uint32_t tile = 0; tile < launch.tiles; ++tile) {
      for (std::int64_t thread = 0; thread < cuda::kThreads; ++thread) {
        cuda::copy_tile<To, From>(launch, tile, thread, apply);
      }
    }
  }
};

}  // namespace

void copy_pieces(int /*device*/, cudaStream_t, const CopyRule& rule,
                 std::span<const CopyPiece> pieces) {
  cuda::run_copy(rule, pieces, HostRun{});
}

}  // namespace hvd
