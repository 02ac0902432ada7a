#include "test/support/sim/sim_arena.h"

#include <utility>
#include <vector>

#include "ops/host/host_memory.h"

namespace hvd {
namespace {

class MakeSimArena final : public Operation {
 public:
  MakeSimArena(host::MappedArenaPtr arena, std::size_t bytes, int size, ArenaMemory& made,
               const SimExchange& exchange)
      : arena_(std::move(arena)),
        buffer_(host::allocate_buffer(bytes)),
        made_(made),
        mine_(reinterpret_cast<std::int64_t>(buffer_.data)),
        all_(static_cast<std::size_t>(size)),
        exchange_(exchange({&mine_, 1}, all_)) {}

  bool advance() override {
    if (!exchange_->advance()) return false;
    if (!arena_->begin_of.empty()) return true;
    for (const std::int64_t begin : all_) {
      arena_->begin_of.push_back(reinterpret_cast<std::byte*>(begin));
    }
    arena_->memory = {buffer_.owner};  // the others keep theirs while they use it
    made_ = {{buffer_.data, buffer_.bytes, arena_}, true};
    return true;
  }

 private:
  host::MappedArenaPtr arena_;
  Buffer buffer_;
  ArenaMemory& made_;
  std::int64_t mine_;
  std::vector<std::int64_t> all_;
  std::unique_ptr<Operation> exchange_;  // last: reads and writes what is above
};

}  // namespace

std::unique_ptr<Operation> make_sim_arena(host::MappedArenaPtr arena, std::size_t bytes, int size,
                                          ArenaMemory& made, const SimExchange& exchange) {
  return std::make_unique<MakeSimArena>(std::move(arena), bytes, size, made, exchange);
}

}  // namespace hvd
