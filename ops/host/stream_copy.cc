#include "ops/host/stream_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace hvd::host {

#ifdef __SSE2__
namespace {

constexpr std::size_t kWord = sizeof(__m128i);
constexpr std::size_t kLine = 64;
// Less is sooner there through the caches.
constexpr std::size_t kLeast = 512;

}  // namespace

// Stores of a line that follow each other leave together, even if two calls made them.
void stream_copy(void* to, const void* from, std::size_t bytes) noexcept {
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kWord;
  if (bytes < kLeast) {
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

void stream_copy(void* to, const void* from, std::size_t bytes) noexcept {
  std::memcpy(to, from, bytes);
}

void end_stream() noexcept {}

#endif

}  // namespace hvd::host
