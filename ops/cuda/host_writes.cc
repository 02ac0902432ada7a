#include "ops/cuda/host_writes.h"

#include <cstring>
#include <utility>

#include "core/system/process.h"

namespace hvd::engine {

HostWrites::~HostWrites() {
  for (UnderWay& each : under_way_) {
    if (!each.passed.reached()) leak_until_exit(std::move(each.memory.owner));
  }
}

void HostWrites::write(CudaStream& stream, const void* from, void* to, std::size_t bytes) {
  while (!under_way_.empty() && under_way_.front().passed.reached()) under_way_.pop_front();
  if (bytes == 0) return;
  Buffer memory = pinned_.take(bytes);
  std::memcpy(memory.data, from, bytes);
  stream.write(memory.data, to, bytes);
  under_way_.push_back({std::move(memory), stream.fence()});
}

}  // namespace hvd::engine
