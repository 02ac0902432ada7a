#include "ops/shm/mailboxes.h"

#include <algorithm>
#include <bit>
#include <string>

#include "core/base/status.h"

namespace hvd {
namespace {

// Messages are small, and one that does not fit waits in its sender: 4 MiB for all rings of a host
// is enough, and /dev/shm of a container is often only 64 MiB.
constexpr std::size_t kAllMailboxes = std::size_t{4} << 20;
constexpr std::size_t kLargestMailbox = std::size_t{64} << 10;
constexpr std::size_t kSmallestMailbox = std::size_t{1} << 10;

std::size_t ring_bytes_for(int ranks) {
  const auto pairs = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
  return std::clamp(std::bit_floor(kAllMailboxes / pairs), kSmallestMailbox, kLargestMailbox);
}

}  // namespace

std::size_t Mailboxes::bytes_needed(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return count * sizeof(RankSlot) + count * count * (sizeof(ByteRingState) + ring_bytes_for(ranks));
}

Mailboxes::Mailboxes(std::shared_ptr<SharedMemory> memory, int ranks)
    : memory_(std::move(memory)), ranks_(ranks), ring_bytes_(ring_bytes_for(ranks)) {
  if (memory_->bytes() < bytes_needed(ranks)) {
    throw InternalError("mailboxes of " + std::to_string(ranks) + " ranks do not fit " +
                        std::to_string(memory_->bytes()) + " bytes");
  }
}

RankSlot& Mailboxes::slot(int local_rank) const noexcept {
  return reinterpret_cast<RankSlot*>(memory_->data())[local_rank];
}

ByteRing Mailboxes::ring(int from, int to) const noexcept {
  const auto count = static_cast<std::size_t>(ranks_);
  const auto pair = static_cast<std::size_t>(from) * count + static_cast<std::size_t>(to);
  std::byte* states = memory_->data() + count * sizeof(RankSlot);
  std::byte* data = states + count * count * sizeof(ByteRingState);
  return {reinterpret_cast<ByteRingState*>(states)[pair], data + pair * ring_bytes_, ring_bytes_};
}

}  // namespace hvd
