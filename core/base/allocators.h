#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace hvd {

// Blocks of one size that this thread freed and will allocate again: at most as many as it
// allocated, so that a thread which only frees what others made hoards nothing.
template <std::size_t kBytes>
class FreeBlocks {
 public:
  // Null when there is none.
  static void* take() noexcept {
    if (missing < kMost) ++missing;
    Block* const block = first;
    if (block != nullptr) first = block->next;
    return block;
  }
  // False when it has its own back.
  static bool keep(void* memory) noexcept {
    static thread_local const Cleaner cleaner;
    if (missing == 0) return false;
    --missing;
    first = ::new (memory) Block{first};
    return true;
  }

 private:
  struct Block {
    Block* next;
  };
  static_assert(kBytes >= sizeof(Block));
  static constexpr std::size_t kMost = 4096;

  // At the end of the thread. What is freed later goes to the heap.
  struct Cleaner {
    Cleaner() = default;
    ~Cleaner() {
      while (void* block = take()) ::operator delete(block);
      missing = 0;
    }
    Cleaner(const Cleaner&) = delete;
    Cleaner& operator=(const Cleaner&) = delete;
  };

  static inline thread_local Block* first = nullptr;
  static inline thread_local std::size_t missing = 0;  // allocated here and not freed here
};

// For what comes and goes by the thousand, one object at a time: calls in flight. malloc has seven
// blocks of a size at hand, and merges and splits the others. Blocks go to the thread that frees
// them.
template <typename T>
class RecyclingAllocator {
 public:
  using value_type = T;

  RecyclingAllocator() = default;
  template <typename Other>
  RecyclingAllocator(const RecyclingAllocator<Other>& /*other*/) noexcept {}

  T* allocate(std::size_t number) {
    void* memory = recycles(number) ? Blocks::take() : nullptr;
    if (memory == nullptr) memory = ::operator new(number * sizeof(T));
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t number) noexcept {
    if (!recycles(number) || !Blocks::keep(memory)) ::operator delete(memory);
  }
  friend bool operator==(const RecyclingAllocator&, const RecyclingAllocator&) { return true; }

 private:
  using Blocks = FreeBlocks<sizeof(T)>;

  static constexpr bool recycles(std::size_t number) noexcept {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    return false;  // it watches what is freed
#endif
#endif
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return number == 1;
  }
};

// Has one element nearly always.
template <typename T>
using RecycledVector = std::vector<T, RecyclingAllocator<T>>;

// A base of T, objects of which come and go like that.
template <typename T>
struct Recycled {
  static void* operator new(std::size_t) { return RecyclingAllocator<T>().allocate(1); }
  static void operator delete(void* memory) noexcept {
    RecyclingAllocator<T>().deallocate(static_cast<T*>(memory), 1);
  }
};

template <typename T, typename... Arguments>
std::shared_ptr<T> make_recycled(Arguments&&... arguments) {
  return std::allocate_shared<T>(RecyclingAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace hvd
