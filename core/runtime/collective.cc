#include "core/runtime/collective.h"

namespace hvd {
namespace {

class Finished final : public Operation {
 public:
  bool advance() override { return true; }
};

}  // namespace

std::unique_ptr<Operation> Collective::make_arena(std::uint64_t, std::size_t bytes,
                                                  ArenaMemory& made) {
  made = {allocate(bytes), false};
  return std::make_unique<Finished>();
}

}  // namespace hvd
