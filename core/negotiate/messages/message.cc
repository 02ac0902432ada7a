#include "core/negotiate/messages/message.h"

#include <utility>

namespace hvd {

template <typename Io>
void serialize(Io& io, Fields<Io, Status>& status) {
  constexpr unsigned kStatusCodeCount = 8;
  StatusCode code = status.code();
  io.choice(code, kStatusCodeCount);
  if constexpr (Io::kReads) {
    std::string message;
    io.text(message);
    if (code == StatusCode::kOk) ByteReader::malformed("a reason that is not an error");
    status = {code, std::move(message)};
  } else {
    io.text(status.message());
  }
}

template void serialize(ByteWriter& io, const Status& status);
template void serialize(ByteReader& io, Status& status);

}  // namespace hvd

namespace hvd::engine {
namespace {

constexpr unsigned kMessageKindCount = 7;

}  // namespace

template <typename Io>
void serialize(Io& io, Fields<Io, MessageHeader>& header) {
  std::uint8_t version = kMessageVersion;
  io.number(version);
  if (version != kMessageVersion) ByteReader::malformed("another version");
  io.number(header.epoch);
  io.choice(header.kind, kMessageKindCount);
}

bool is_observation(std::span<const std::byte> message) {
  constexpr std::size_t kKindAt = sizeof kMessageVersion + sizeof MessageHeader::epoch;
  return message.size() > kKindAt &&
         message[kKindAt] == static_cast<std::byte>(MessageKind::kObservation);
}

template <typename Io>
void serialize(Io& io, Fields<Io, AbortNotice>& notice) {
  serialize(io, notice.why);
  io.number(notice.lost);
}

template void serialize(ByteWriter& io, const MessageHeader& header);
template void serialize(ByteReader& io, MessageHeader& header);
template void serialize(ByteWriter& io, const AbortNotice& notice);
template void serialize(ByteReader& io, AbortNotice& notice);

}  // namespace hvd::engine
