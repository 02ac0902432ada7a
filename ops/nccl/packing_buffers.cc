#include "ops/nccl/packing_buffers.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hvd::engine {

PackingBuffers::~PackingBuffers() {
  for (const auto& turn : turns_) queue_->retire(std::move(turn->memory));
}

std::shared_ptr<PackingBuffers::Turn> PackingBuffers::take(std::size_t bytes) {
  const std::shared_ptr<Turn> turn = turns_[next_];
  next_ = (next_ + 1) % turns_.size();
  if (turn->memory != nullptr && turn->memory->buffer().bytes >= bytes) return turn;
  if (turn->memory != nullptr) queue_->retire(std::move(turn->memory));
  turn->memory = std::make_shared<NcclMemory>(
      allocate_nccl_memory(api_, device_, std::bit_ceil(std::max<std::size_t>(bytes, 1))));
  return turn;
}

}  // namespace hvd::engine
