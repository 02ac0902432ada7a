#include "core/negotiate/messages/message.h"

namespace hvd {
namespace {

constexpr unsigned kMessageKindCount = 7;
constexpr unsigned kStatusCodeCount = 8;

}  // namespace

void write(ByteWriter& out, const MessageHeader& header) {
  out.put(kMessageVersion);
  out.put(header.epoch);
  out.put(header.kind);
}

MessageHeader read_header(ByteReader& in) {
  if (in.get<std::uint8_t>() != kMessageVersion) ByteReader::malformed("another version");
  MessageHeader header;
  header.epoch = in.get<std::uint32_t>();
  header.kind = in.get_enum<MessageKind>(kMessageKindCount);
  return header;
}

bool is_observation(std::span<const std::byte> message) {
  constexpr std::size_t kKindAt = sizeof kMessageVersion + sizeof MessageHeader::epoch;
  return message.size() > kKindAt &&
         message[kKindAt] == static_cast<std::byte>(MessageKind::kObservation);
}

void write(ByteWriter& out, const Status& status) {
  out.put(status.code());
  out.put_string(status.message());
}

Status read_status(ByteReader& in) {
  const auto code = in.get_enum<StatusCode>(kStatusCodeCount);
  if (code == StatusCode::kOk) ByteReader::malformed("a reason that is not an error");
  return {code, in.get_string()};
}

void write(ByteWriter& out, Duration duration) {
  out.put(static_cast<std::int64_t>(duration.count()));
}

Duration read_duration(ByteReader& in) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 61;  // 73 years in ns
  const auto ticks = in.get<std::int64_t>();
  if (ticks < 0 || ticks > kLongest) ByteReader::malformed("time out of range");
  return Duration(ticks);
}

void write(ByteWriter& out, const AbortNotice& notice) {
  write(out, notice.why);
  out.put(notice.lost);
}

AbortNotice read_abort_notice(ByteReader& in) {
  AbortNotice notice;
  notice.why = read_status(in);
  notice.lost = in.get<std::int32_t>();
  return notice;
}

}  // namespace hvd
