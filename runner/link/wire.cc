#include "runner/link/wire.h"

#include "core/base/text.h"

namespace hvd::runner {
namespace {

constexpr std::size_t kHeader = sizeof(std::uint32_t) + sizeof(MessageType) + sizeof(std::int32_t);
// Bytes of payload: of a command and its variables, more than any system starts a program with.
constexpr std::size_t kLargest = 1 << 23;

std::optional<TcpAddress> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view address = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (address.starts_with('[') && address.ends_with(']')) {
    address = address.substr(1, address.size() - 2);
  }
  const auto number = parse_number<std::uint16_t>(port);
  if (address.empty() || !number || *number == 0) return std::nullopt;
  return TcpAddress{std::string(address), *number};
}

}  // namespace

std::string join(std::span<const std::string> texts) {
  std::string all;
  for (const std::string& text : texts) all.append(text).push_back('\0');
  return all;
}

std::vector<std::string> split_joined(std::string_view text) {
  std::vector<std::string> texts;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) ByteReader::malformed("a list without its end");
    texts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return texts;
}

std::size_t begin_message(Bytes& out, MessageType type, std::int32_t rank) {
  const std::size_t at = out.size();
  ByteWriter writer(out);
  writer.put(std::uint32_t{0});
  writer.put(type);
  writer.put(rank);
  return at;
}

void end_message(Bytes& out, std::size_t at) {
  const auto length = static_cast<std::uint32_t>(out.size() - at - kHeader);
  std::memcpy(out.data() + at, &length, sizeof length);
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
  const auto rank = reader.get<std::int32_t>();
  if (rest.size() < kHeader + length) return std::nullopt;
  const auto payload = rest.subspan(kHeader, length);
  at_ += kHeader + length;
  return Message{type, rank, Bytes(payload.begin(), payload.end())};
}

std::string to_string(const AgentAddress& address) {
  std::string text = address.key + ' ';
  for (std::size_t i = 0; i < address.endpoints.size(); ++i) {
    text += (i == 0 ? "" : ",") + to_string(address.endpoints[i]);
  }
  return text;
}

AgentAddress parse_agent_address(std::string_view text) {
  const InvalidArgumentError bad(
      "agent: expected hvdrun's 'key address:port,address:port' on standard input, which a login "
      "shell that reads it may have taken, or after --driver");
  const std::size_t blank = text.find(' ');
  if (blank == 0 || blank == std::string_view::npos) throw bad;
  AgentAddress address;
  address.key = text.substr(0, blank);
  for (const std::string_view part : split(text.substr(blank + 1), ',')) {
    const auto endpoint = parse_endpoint(part);
    if (!endpoint) throw bad;
    address.endpoints.push_back(*endpoint);
  }
  return address;
}

}  // namespace hvd::runner
