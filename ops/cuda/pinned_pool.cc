#include "ops/cuda/pinned_pool.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/thread_annotations.h"

namespace hvd {
namespace {

constexpr std::size_t kLeast = 4096;  // bytes
constexpr std::size_t kMostFree = 16;

}  // namespace

struct CudaPool::State {
  Mutex mutex;
  std::vector<Buffer> free HVD_GUARDED_BY(mutex);

  // The smallest that is large enough, but not one that is mostly left over.
  std::optional<Buffer> find(std::size_t bytes) {
    const MutexLock lock(mutex);
    auto best = free.end();
    for (auto it = free.begin(); it != free.end(); ++it) {
      if (it->bytes < bytes || it->bytes > 4 * std::max(bytes, kLeast)) continue;
      if (best == free.end() || it->bytes < best->bytes) best = it;
    }
    if (best == free.end()) return std::nullopt;
    Buffer found = std::move(*best);
    free.erase(best);
    return found;
  }

  void put(Buffer buffer) {
    const MutexLock lock(mutex);
    if (free.size() == kMostFree) free.erase(free.begin());
    free.push_back(std::move(buffer));
  }
};

CudaPool::CudaPool(int device, Allocate allocate)
    : device_(device), allocate_(allocate), state_(std::make_shared<State>()) {}

Buffer CudaPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  std::optional<Buffer> memory = state_->find(bytes);
  if (!memory) memory = allocate_(device_, std::bit_ceil(std::max(bytes, kLeast)));
  void* const data = memory->data;
  const std::size_t size = memory->bytes;
  std::shared_ptr<const void> owner(
      data, [state = state_, kept = *memory](const void*) mutable { state->put(std::move(kept)); });
  return {data, size, std::move(owner)};
}

}  // namespace hvd
