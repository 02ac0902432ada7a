#include "ops/host/streaming_copy.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace hvd::engine::host {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kLeast = std::size_t{2} << 10;     // less is soon there either way
constexpr std::size_t kMeasured = std::size_t{8} << 10;  // less says little
constexpr Duration kSlowLine = std::chrono::nanoseconds(20);
constexpr int kStreamed = 256;  // before the caches are tried again

std::atomic<int> streams_left{0};
std::atomic<int> slow_in_a_row{0};  // one is often a thread that was interrupted

#ifdef __SSE2__

// Stores of a line that follow each other leave together, even if two calls made them.
void stream(void* to, const void* from, std::size_t bytes) noexcept {
  constexpr std::size_t kWord = sizeof(__m128i);
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kWord;
  if (bytes < kLine) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  auto* out = reinterpret_cast<__m128i*>(static_cast<std::byte*>(to) + head);
  const auto* in = reinterpret_cast<const __m128i*>(static_cast<const std::byte*>(from) + head);
  std::size_t left = bytes - head;
  for (; left >= kLine; left -= kLine, in += 4, out += 4) {
    const __m128i a = _mm_loadu_si128(in);
    const __m128i b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2);
    const __m128i d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  for (; left >= kWord; left -= kWord) _mm_stream_si128(out++, _mm_loadu_si128(in++));
  std::memcpy(out, in, left);
}

void end_stream() noexcept {
  _mm_sfence();
}

#else

void stream(void* to, const void* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}

void end_stream() noexcept {}

#endif

bool take_stream(std::size_t bytes) noexcept {
  if (bytes < kLeast || !StreamingCopy::past_the_caches()) return false;
  streams_left.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

}  // namespace

StreamingCopy::StreamingCopy(std::size_t bytes) noexcept
    : bytes_(bytes),
      streams_(take_stream(bytes)),
      begin_(!streams_ && bytes >= kMeasured ? Clock::now() : TimePoint{}) {}

StreamingCopy::~StreamingCopy() {
  if (streams_) {
    end_stream();
  } else if (bytes_ >= kMeasured) {
    measured(bytes_, Clock::now() - begin_);
  }
}

void StreamingCopy::copy(void* to, const void* from, std::size_t bytes) const noexcept {
  if (streams_) {
    stream(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

bool StreamingCopy::past_the_caches() noexcept {
  return streams_left.load(std::memory_order_relaxed) > 0;
}

void StreamingCopy::measured(std::size_t bytes, Duration time) noexcept {
  if (time <= kSlowLine * (bytes / kLine)) {
    slow_in_a_row.store(0, std::memory_order_relaxed);
  } else if (slow_in_a_row.exchange(1, std::memory_order_relaxed) != 0) {
    streams_left.store(kStreamed, std::memory_order_relaxed);
  }
}

}  // namespace hvd::engine::host
