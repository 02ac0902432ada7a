#include "ops/cuda/pinned_pool.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/thread_annotations.h"
#include "ops/cuda/device.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kLeast = 4096;  // bytes

}  // namespace

// Of one device. Never destroyed.
class PinnedPool::State {
 public:
  static State& of(int device) {
    static Mutex mutex;
    static auto* const all = new std::map<int, std::unique_ptr<State>>;
    const MutexLock lock(mutex);
    std::unique_ptr<State>& state = (*all)[device];
    if (state == nullptr) state = std::make_unique<State>(device);
    return *state;
  }

  explicit State(int device) : device_(device) {}

  Buffer get(std::size_t bytes) {
    if (auto found = find(bytes)) return *std::move(found);
    return allocate_pinned_memory(device_, std::bit_ceil(std::max(bytes, kLeast)));
  }

  void put(Buffer buffer) {
    const MutexLock lock(mutex_);
    free_.push_back(std::move(buffer));
  }

 private:
  // The smallest that is large enough, but not one that is mostly left over.
  std::optional<Buffer> find(std::size_t bytes) {
    const MutexLock lock(mutex_);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->bytes < bytes || it->bytes > 4 * std::max(bytes, kLeast)) continue;
      if (best == free_.end() || it->bytes < best->bytes) best = it;
    }
    if (best == free_.end()) return std::nullopt;
    Buffer found = std::move(*best);
    free_.erase(best);
    return found;
  }

  const int device_;
  Mutex mutex_;
  std::vector<Buffer> free_ HVD_GUARDED_BY(mutex_);
};

PinnedPool::PinnedPool(int device) : state_(State::of(device)) {}

Buffer PinnedPool::take(std::size_t bytes) {
  if (bytes == 0) return {};
  Buffer memory = state_.get(bytes);
  void* const data = memory.data;
  const std::size_t size = memory.bytes;
  std::shared_ptr<const void> owner(data, [&state = state_, kept = std::move(memory)](
                                              const void*) mutable { state.put(std::move(kept)); });
  return {data, size, std::move(owner)};
}

}  // namespace hvd::engine
