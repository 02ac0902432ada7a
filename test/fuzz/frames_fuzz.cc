// libFuzzer: what reads the bytes of unauthenticated peers and of other ranks, under any bytes.

#include <cstddef>
#include <cstdint>
#include <span>

#include "test/fuzz/frames.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hvd::engine::test::read_as_peer(std::as_bytes(std::span(data, size)));
  return 0;
}
