// libFuzzer: the decoders and RankProtocol::receive() under any bytes, in the middle of a job. A
// message is taken or throws PeerLostError; nothing else may happen, least of all a crash.

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/status.h"
#include "test/fuzz/session.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hvd;
  using namespace hvd::engine;
  if (size == 0) return 0;
  std::span<const std::byte> session(reinterpret_cast<const std::byte*>(data), size);
  test::SessionRank rank(static_cast<Rank>(data[0] % 4));
  session = session.subspan(1);
  while (const auto event = test::next_event(session)) {
    try {
      rank.perform(*event);
    } catch (const PeerLostError&) {
    } catch (const Error&) {
      // What a caller may get for what it asks, or for the end of the job; never for a message.
      if (event->kind == test::EventKind::kReceive) throw;
    }
    rank.outcome();
  }
  return 0;
}
