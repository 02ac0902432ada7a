#include "runner/link/wire.h"

#include <charconv>

namespace hvd::runner {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t) + sizeof(MessageType);
constexpr std::size_t kLargest = 1 << 17;  // bytes of payload; agents send less

// Writes the header, lets `body` write the payload, then fills in the payload's length.
template <typename Body>
void append_message(Bytes& out, MessageType type, Body body) {
  ByteWriter writer(out);
  const std::size_t at = out.size();
  writer.put(std::uint32_t{0});
  writer.put(type);
  body(writer);
  const auto length = static_cast<std::uint32_t>(out.size() - at - kHeader);
  std::memcpy(out.data() + at, &length, sizeof length);
}

ByteReader body_of(const Message& message, MessageType expected) {
  if (message.type != expected) ByteReader::malformed("another message was expected");
  return ByteReader(message.payload);
}

std::optional<TcpAddress> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view address = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  TcpAddress endpoint{std::string(address), 0};
  const char* last = port.data() + port.size();
  const auto [end, error] = std::from_chars(port.data(), last, endpoint.port);
  const bool good = error == std::errc() && end == last && endpoint.port != 0 && !address.empty();
  return good ? std::optional(endpoint) : std::nullopt;
}

}  // namespace

void append(Bytes& out, const Hello& message) {
  append_message(out, MessageType::kHello, [&](ByteWriter& writer) {
    writer.put_string(message.host);
    writer.put_string(message.boot);
  });
}

void append(Bytes& out, const Output& message) {
  append_message(out, MessageType::kOutput, [&](ByteWriter& writer) {
    writer.put(message.stream);
    writer.put_string(message.bytes);
  });
}

void append(Bytes& out, const ProgramEnd& message) {
  append_message(out, MessageType::kEnd, [&](ByteWriter& writer) {
    writer.put(message.kind);
    writer.put(message.value);
    writer.put(static_cast<std::uint8_t>(message.was_stopped));
    writer.put(static_cast<std::uint8_t>(message.after_loss));
    writer.put(message.time);
    writer.put_string(message.recording);
  });
}

void append(Bytes& out, const Done&) {
  append_message(out, MessageType::kDone, [](ByteWriter&) {});
}

void append(Bytes& out, const ClockAnswer& message) {
  append_message(out, MessageType::kClockAnswer, [&](ByteWriter& writer) {
    writer.put(message.asked);
    writer.put(message.answered);
  });
}

void append(Bytes& out, const Stop& message) {
  append_message(out, MessageType::kStop, [&](ByteWriter& writer) { writer.put(message.signal); });
}

void append(Bytes& out, const Signal& message) {
  append_message(out, MessageType::kSignal,
                 [&](ByteWriter& writer) { writer.put(message.number); });
}

void append(Bytes& out, const Taken& message) {
  append_message(out, MessageType::kTaken, [&](ByteWriter& writer) { writer.put(message.bytes); });
}

void append(Bytes& out, const ClockQuestion& message) {
  append_message(out, MessageType::kClockQuestion,
                 [&](ByteWriter& writer) { writer.put(message.asked); });
}

Hello read_hello(const Message& message) {
  ByteReader reader = body_of(message, MessageType::kHello);
  Hello hello;
  hello.host = reader.get_string();
  hello.boot = reader.get_string();
  reader.expect_end();
  return hello;
}

Output read_output(const Message& message) {
  ByteReader reader = body_of(message, MessageType::kOutput);
  Output output;
  output.stream = reader.get_enum<Stream>(2);
  output.bytes = reader.get_string();
  reader.expect_end();
  return output;
}

ProgramEnd read_end(const Message& message) {
  ByteReader reader = body_of(message, MessageType::kEnd);
  ProgramEnd end;
  end.kind = reader.get_enum<EndKind>(3);
  end.value = reader.get<std::int32_t>();
  end.was_stopped = reader.get_flag();
  end.after_loss = reader.get_flag();
  end.time = reader.get<std::int64_t>();
  end.recording = reader.get_string();
  reader.expect_end();
  return end;
}

ClockAnswer read_clock_answer(const Message& message) {
  ByteReader reader = body_of(message, MessageType::kClockAnswer);
  ClockAnswer answer;
  answer.asked = reader.get<std::int64_t>();
  answer.answered = reader.get<std::int64_t>();
  reader.expect_end();
  return answer;
}

Stop read_stop(const Message& message) {
  ByteReader reader = body_of(message, MessageType::kStop);
  const Stop stop{reader.get<std::int32_t>()};
  reader.expect_end();
  return stop;
}

Signal read_signal(const Message& message) {
  ByteReader reader = body_of(message, MessageType::kSignal);
  const Signal signal{reader.get<std::int32_t>()};
  reader.expect_end();
  return signal;
}

Taken read_taken(const Message& message) {
  ByteReader reader = body_of(message, MessageType::kTaken);
  const Taken taken{reader.get<std::uint32_t>()};
  reader.expect_end();
  return taken;
}

ClockQuestion read_clock_question(const Message& message) {
  ByteReader reader = body_of(message, MessageType::kClockQuestion);
  const ClockQuestion question{reader.get<std::int64_t>()};
  reader.expect_end();
  return question;
}

void MessageReader::feed(std::span<const std::byte> bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

std::optional<Message> MessageReader::next() {
  const std::span<const std::byte> rest = std::span(buffer_).subspan(at_);
  if (rest.size() < kHeader) return std::nullopt;
  ByteReader reader(rest);
  const auto length = reader.get<std::uint32_t>();
  if (length > kLargest) ByteReader::malformed("length");
  const auto type = reader.get_enum<MessageType>(kMessageTypes);
  if (rest.size() < kHeader + length) return std::nullopt;
  const auto payload = rest.subspan(kHeader, length);
  at_ += kHeader + length;
  return Message{type, Bytes(payload.begin(), payload.end())};
}

std::string to_string(const AgentAddress& address) {
  std::string text = address.key + ' ';
  for (std::size_t i = 0; i < address.endpoints.size(); ++i) {
    text += (i == 0 ? "" : ",") + to_string(address.endpoints[i]);
  }
  return text;
}

AgentAddress parse_agent_address(std::string_view text) {
  const InvalidArgumentError bad("HVDRUN_AGENT: expected 'key address:port,address:port'");
  const std::size_t blank = text.find(' ');
  if (blank == 0 || blank == std::string_view::npos) throw bad;
  AgentAddress address;
  address.key = text.substr(0, blank);
  std::string_view rest = text.substr(blank + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto endpoint = parse_endpoint(rest.substr(0, comma));
    if (!endpoint) throw bad;
    address.endpoints.push_back(*endpoint);
    if (comma == std::string_view::npos) return address;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace hvd::runner
