#include "ops/host/host_buffer.h"

#include <new>

namespace hvd::host {

Buffer allocate_buffer(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};  // a cache line
  void* const data = ::operator new(bytes, kAlignment);
  const auto release = [](const void* memory) {
    ::operator delete(const_cast<void*>(memory), kAlignment);
  };
  return {data, bytes, std::shared_ptr<const void>(data, release)};
}

}  // namespace hvd::host
