#include "ops/shm/byte_ring.h"

#include <algorithm>
#include <cstring>

namespace hvd::engine {

std::size_t ByteRing::room() const noexcept {
  const auto used = state_->written.load(std::memory_order_relaxed) -
                    state_->taken.load(std::memory_order_seq_cst);
  return capacity_ - static_cast<std::size_t>(used);
}

std::size_t ByteRing::write(std::span<const std::byte> bytes) noexcept {
  std::size_t done = write_some(bytes);
  if (done < bytes.size()) {
    // The flag goes up before room is looked for again, and the reader makes room before it looks
    // at the flag: one of the two sees the other, so no wake-up is lost.
    state_->writer_waits.store(1, std::memory_order_seq_cst);
    done += write_some(bytes.subspan(done));
  }
  return done;
}

std::size_t ByteRing::write_some(std::span<const std::byte> bytes) noexcept {
  const std::size_t count = std::min(room(), bytes.size());
  if (count == 0) return 0;
  const auto written = state_->written.load(std::memory_order_relaxed);
  const auto at = static_cast<std::size_t>(written) & (capacity_ - 1);
  const std::size_t first = std::min(count, capacity_ - at);
  std::memcpy(data_ + at, bytes.data(), first);
  if (count > first) std::memcpy(data_, bytes.data() + first, count - first);
  state_->written.store(written + count, std::memory_order_release);
  return count;
}

bool ByteRing::read(std::span<std::byte> out) noexcept {
  const auto taken = state_->taken.load(std::memory_order_relaxed);
  const auto at = static_cast<std::size_t>(taken) & (capacity_ - 1);
  const std::size_t first = std::min(out.size(), capacity_ - at);
  if (!out.empty()) std::memcpy(out.data(), data_ + at, first);
  if (out.size() > first) std::memcpy(out.data() + first, data_, out.size() - first);
  state_->taken.store(taken + out.size(), std::memory_order_seq_cst);
  return state_->writer_waits.load(std::memory_order_seq_cst) != 0 &&
         state_->writer_waits.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace hvd::engine
