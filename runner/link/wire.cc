#include "runner/link/wire.h"

#include "core/base/text.h"

namespace hvd::runner {

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
    const auto endpoint = engine::parse_tcp_address(part);
    if (!endpoint) throw bad;
    address.endpoints.push_back(*endpoint);
  }
  return address;
}

}  // namespace hvd::runner
