#include "ops/connect/hello.h"

namespace hvd {

Bytes encode(const RendezvousHello& hello) {
  Bytes bytes;
  bytes.reserve(kRendezvousHelloBytes);
  ByteWriter writer(bytes);
  writer.put(hello.size);
  writer.put(hello.process);
  return bytes;
}

RendezvousHello decode_rendezvous_hello(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  RendezvousHello hello;
  hello.size = reader.get<std::int32_t>();
  hello.process = reader.get<std::int64_t>();
  reader.expect_end();
  return hello;
}

}  // namespace hvd
