#include "horovod_cpp/tensor/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(block, bytes) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(block, bytes) static_cast<void>(0)
#endif

namespace hvd::memory {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Large blocks ask for huge pages: convolutions walk through matrices in steps of many pages, and
// would wait for the translation of addresses otherwise. It is a hint, so that nothing may fail.
void* fresh_block(std::size_t size) {
  if (size < kHugePage) return std::aligned_alloc(kAlignment, size);
  const std::size_t whole = (size + kHugePage - 1) / kHugePage * kHugePage;
  void* block = std::aligned_alloc(kHugePage, whole);
#ifdef MADV_HUGEPAGE
  if (block != nullptr) madvise(block, size / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return block;
}

// Four classes a doubling: at most a quarter of a block is unused, and blocks of similar tensors
// can stand in for each other.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
  const std::size_t step = std::max(std::bit_floor(bytes - 1) / 4, kAlignment);
  return (bytes + step - 1) / step * step;
}

class Cache {
 public:
  void* take(std::size_t size) {
    {
      const std::lock_guard lock(mutex_);
      FreeBlocks& found = free_[size];
      found.wanted = ++clock_;
      if (!found.blocks.empty()) {
        void* block = found.blocks.back();
        found.blocks.pop_back();
        statistics_.cached -= size;
        ++statistics_.reused;
        count(size);
        ASAN_UNPOISON_MEMORY_REGION(block, size);
        return block;
      }
    }
    void* block = fresh_block(size);
    if (block == nullptr) {  // what the cache holds may be what is missing
      release();
      block = fresh_block(size);
      if (block == nullptr) throw std::bad_alloc();
    }
    const std::lock_guard lock(mutex_);
    ++statistics_.fresh;
    count(size);
    return block;
  }

  void give(void* block, std::size_t size) noexcept {
    const std::lock_guard lock(mutex_);
    statistics_.in_use -= size;
    if (!keep(block, size)) return std::free(block);
    while (statistics_.cached > statistics_.peak) drop_stalest();
  }

  void release() noexcept {
    const std::lock_guard lock(mutex_);
    while (statistics_.cached > 0) drop_stalest();
  }

  Statistics statistics() {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  struct FreeBlocks {
    std::vector<void*> blocks;
    std::uint64_t wanted = 0;  // when a block of this size was last asked for
  };

  void count(std::size_t size) {
    statistics_.in_use += size;
    statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
  }

  bool keep(void* block, std::size_t size) noexcept {
    try {
      free_[size].blocks.push_back(block);
    } catch (const std::bad_alloc&) {
      return false;
    }
    statistics_.cached += size;
    ASAN_POISON_MEMORY_REGION(block, size);
    return true;
  }

  // A block of the size that was not asked for the longest. What a program needed at its start
  // must not keep the cache from holding what each step of a loop needs.
  void drop_stalest() noexcept {
    auto stalest = free_.end();
    for (auto each = free_.begin(); each != free_.end(); ++each) {
      if (each->second.blocks.empty()) continue;
      if (stalest == free_.end() || each->second.wanted < stalest->second.wanted) stalest = each;
    }
    void* block = stalest->second.blocks.back();
    stalest->second.blocks.pop_back();
    statistics_.cached -= stalest->first;
    ASAN_UNPOISON_MEMORY_REGION(block, stalest->first);
    std::free(block);
  }

  std::mutex mutex_;
  std::map<std::size_t, FreeBlocks> free_;
  std::uint64_t clock_ = 0;
  Statistics statistics_;
};

// Never destroyed: tensors with static lifetime may be freed after any destructor of ours.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

}  // namespace

void* allocate(std::size_t bytes) {
  return cache().take(size_class(bytes));
}

void deallocate(void* block, std::size_t bytes) noexcept {
  cache().give(block, size_class(bytes));
}

void release_cache() noexcept {
  cache().release();
}

Statistics statistics() {
  return cache().statistics();
}

}  // namespace hvd::memory
