#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hvd::engine {

// The shared part of a ring: positions count bytes since the beginning and never wrap.
struct ByteRingState {
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> taken{0};
  alignas(64) std::atomic<std::uint32_t> writer_waits{0};
};

// A stream of bytes from one writer to one reader, lock-free, in memory that both map.
class ByteRing {
 public:
  ByteRing() = default;
  // `capacity` is a power of two; both must outlive this object.
  ByteRing(ByteRingState& state, std::byte* data, std::size_t capacity) noexcept
      : state_(&state), data_(data), capacity_(capacity) {}

  // -- the writer's side

  std::size_t room() const noexcept;
  // Copies as much of `bytes` as fits and shows it to the reader; how much that was. When it was
  // not all, the reader's next read() answers true once.
  std::size_t write(std::span<const std::byte> bytes) noexcept;

  // -- the reader's side

  std::size_t readable() const noexcept {
    return static_cast<std::size_t>(state_->written.load(std::memory_order_acquire) -
                                    state_->taken.load(std::memory_order_relaxed));
  }
  // Copies out.size() bytes; requires readable() >= out.size(). True when the writer waits for the
  // room this made and must be rung.
  bool read(std::span<std::byte> out) noexcept;

 private:
  std::size_t write_some(std::span<const std::byte> bytes) noexcept;

  ByteRingState* state_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace hvd::engine
