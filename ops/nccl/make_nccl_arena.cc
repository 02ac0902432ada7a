#include "ops/nccl/make_nccl_arena.h"

#include <utility>

namespace hvd::engine {

MakeNcclArena::MakeNcclArena(std::shared_ptr<NcclMemory> memory, host::MappedArenaPtr arena,
                             ArenaMemory& made, std::shared_ptr<LaunchQueue> queue, Steps steps)
    : memory_(std::move(memory)),
      arena_(std::move(arena)),
      made_(made),
      queue_(std::move(queue)),
      steps_(std::move(steps)),
      everyone_has_it_(memory_ == nullptr ? 0 : 1),
      agreement_(steps_.agree({&everyone_has_it_, 1})) {}

bool MakeNcclArena::advance() {
  if (!agreement_->advance()) return false;
  if (everyone_has_it_ == 0) {
    if (memory_ != nullptr) queue_->retire(std::exchange(memory_, nullptr));
    return true;
  }
  if (registration_ == nullptr) registration_ = steps_.register_memory(memory_);
  if (!registration_->advance()) return false;
  const Buffer& mine = memory_->buffer();
  arena_->begin_of = {static_cast<std::byte*>(mine.data)};
  arena_->memory = {memory_};
  made_ = {{mine.data, mine.bytes, arena_}, true};
  return true;
}

}  // namespace hvd::engine
