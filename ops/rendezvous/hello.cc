#include "ops/rendezvous/hello.h"

namespace hvd {

Bytes encode(const RendezvousHello& hello) {
  Bytes bytes;
  bytes.reserve(hello.key.size() + 20);
  ByteWriter writer(bytes);
  writer.put_string(hello.key);
  writer.put(hello.rank);
  writer.put(hello.size);
  writer.put(hello.process);
  return bytes;
}

RendezvousHello decode_rendezvous_hello(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  RendezvousHello hello;
  hello.key = reader.get_string();
  hello.rank = reader.get<std::int32_t>();
  hello.size = reader.get<std::int32_t>();
  hello.process = reader.get<std::int64_t>();
  reader.expect_end();
  return hello;
}

}  // namespace hvd
