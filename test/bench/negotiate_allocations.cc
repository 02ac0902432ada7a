// In a file of its own: where operator new is seen to be malloc, compilers object to the pairing.

#include "test/bench/negotiate_allocations.h"

#include <cstdlib>
#include <new>

namespace {

std::size_t count = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  ++count;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace hvd::engine::bench {

std::size_t allocations() {
  return count;
}

}  // namespace hvd::engine::bench
