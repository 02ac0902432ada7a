#include "core/negotiate/message.h"

namespace hvd {
namespace {

constexpr unsigned kMessageKindCount = 5;
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

void write(ByteWriter& out, const Status& status) {
  out.put(status.code());
  out.put_string(status.message());
}

Status read_status(ByteReader& in) {
  const auto code = in.get_enum<StatusCode>(kStatusCodeCount);
  if (code == StatusCode::kOk) ByteReader::malformed("a reason that is no error");
  return {code, in.get_string()};
}

void write(ByteWriter& out, const Emergency& emergency) {
  write(out, emergency.why);
  out.put(emergency.lost);
}

Emergency read_emergency(ByteReader& in) {
  Emergency emergency;
  emergency.why = read_status(in);
  emergency.lost = in.get<std::int32_t>();
  return emergency;
}

}  // namespace hvd
