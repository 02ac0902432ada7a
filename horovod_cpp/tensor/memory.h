#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace hvd {

// What asked for more memory than there is, and for how much. MemoryError in Python.
class OutOfMemoryError : public std::bad_alloc {
 public:
  explicit OutOfMemoryError(std::string message)
      : text_(std::make_shared<const std::string>(std::move(message))) {}
  const char* what() const noexcept override { return text_->c_str(); }

 private:
  std::shared_ptr<const std::string> text_;  // copies do not throw
};

namespace memory {

// Tensor memory is 64-byte aligned (one cache line, one AVX-512 register) and comes from a cache of
// freed blocks: fresh pages cost a training loop more than its arithmetic. The cache never holds
// more than the most bytes that were in use at once; what goes first is of the size that was not
// asked for the longest. Any thread may call any function here.
inline constexpr std::size_t kAlignment = 64;

struct Statistics {
  std::size_t in_use = 0;  // bytes handed out, as rounded up
  std::size_t peak = 0;    // most bytes in use at once
  std::size_t cached = 0;  // bytes kept for reuse
  std::size_t reused = 0;  // allocations served from the cache
  std::size_t fresh = 0;   // allocations served by the system
};

// Uninitialised memory. Throws std::bad_alloc when the system has none left.
void* allocate(std::size_t bytes);

// `bytes` is what allocate() was asked for.
void deallocate(void* block, std::size_t bytes) noexcept;

// Gives all cached blocks back to the system.
void release_cache() noexcept;

Statistics statistics();

}  // namespace memory
}  // namespace hvd
