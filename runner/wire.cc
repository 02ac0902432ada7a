#include "runner/wire.h"

#include <charconv>

namespace hvd::runner {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t) + sizeof(MessageType);
constexpr std::size_t kLargest = 1 << 20;  // bytes of payload; agents send far less

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

}  // namespace

void append(Bytes& out, const Hello& message) {
  append_message(out, MessageType::kHello, [&](ByteWriter& writer) {
    writer.put_string(message.key);
    writer.put(message.rank);
    writer.put_string(message.host);
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
    writer.put(message.time);
  });
}

void append(Bytes& out, const Stop& message) {
  append_message(out, MessageType::kStop, [&](ByteWriter& writer) { writer.put(message.signal); });
}

Hello read_hello(const Message& message) {
  if (message.type != MessageType::kHello) ByteReader::malformed("an agent has to say hello first");
  ByteReader reader(message.payload);
  Hello hello;
  hello.key = reader.get_string();
  hello.rank = reader.get<std::int32_t>();
  hello.host = reader.get_string();
  reader.expect_end();
  return hello;
}

Output read_output(const Message& message) {
  ByteReader reader(message.payload);
  Output output;
  output.stream = reader.get_enum<Stream>(2);
  output.bytes = reader.get_string();
  reader.expect_end();
  return output;
}

ProgramEnd read_end(const Message& message) {
  ByteReader reader(message.payload);
  ProgramEnd end;
  end.kind = reader.get_enum<EndKind>(3);
  end.value = reader.get<std::int32_t>();
  end.was_stopped = reader.get<std::uint8_t>() != 0;
  end.time = reader.get<std::int64_t>();
  reader.expect_end();
  return end;
}

Stop read_stop(const Message& message) {
  if (message.type != MessageType::kStop) ByteReader::malformed("hvdrun only says stop");
  ByteReader reader(message.payload);
  const Stop stop{reader.get<std::int32_t>()};
  reader.expect_end();
  return stop;
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
  std::string text = address.key + ' ' + std::to_string(address.port) + ' ';
  for (std::size_t i = 0; i < address.hosts.size(); ++i) {
    text += (i == 0 ? "" : ",") + address.hosts[i];
  }
  return text;
}

AgentAddress parse_agent_address(std::string_view text) {
  const auto bad = [&]() -> InvalidArgumentError {
    return InvalidArgumentError("HVDRUN_AGENT: expected 'key port address,address', got '" +
                                std::string(text) + "'");
  };
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first == std::string_view::npos ? first : first + 1);
  if (first == 0 || second == std::string_view::npos) throw bad();
  AgentAddress address;
  address.key = text.substr(0, first);
  const std::string_view port = text.substr(first + 1, second - first - 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port == 0) throw bad();
  std::string_view hosts = text.substr(second + 1);
  while (!hosts.empty()) {
    const std::size_t comma = hosts.find(',');
    address.hosts.emplace_back(hosts.substr(0, comma));
    hosts = comma == std::string_view::npos ? "" : hosts.substr(comma + 1);
  }
  if (address.hosts.empty()) throw bad();
  return address;
}

}  // namespace hvd::runner
