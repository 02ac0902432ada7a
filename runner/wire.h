#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"

// What agents and hvdrun say to each other over one TCP connection a rank. Pure encoding.
namespace hvd::runner {

enum class Stream : std::uint8_t { kStdout = 0, kStderr };

// agent -> hvdrun, first message. `key` proves that the agent belongs to this job.
struct Hello {
  std::string key;
  std::int32_t rank = 0;
  std::string host;
};

// agent -> hvdrun: bytes the program wrote.
struct Output {
  Stream stream = Stream::kStdout;
  std::string bytes;
};

// kLost is hvdrun's own word for a rank whose agent vanished; agents never send it.
enum class EndKind : std::uint8_t { kExited = 0, kSignaled, kNotStarted, kLost };

// agent -> hvdrun, last message: how the program ended.
struct ProgramEnd {
  EndKind kind = EndKind::kExited;
  std::int32_t value = 0;    // exit code, signal number or errno
  bool was_stopped = false;  // told to stop before it ended
  std::int64_t time = 0;     // system clock, nanoseconds
};

// hvdrun -> agent: pass `signal` to the program; kill what still runs after the grace.
struct Stop {
  std::int32_t signal = 0;
};

enum class MessageType : std::uint8_t { kHello = 0, kOutput, kEnd, kStop };
inline constexpr unsigned kMessageTypes = 4;

struct Message {
  MessageType type = MessageType::kHello;
  Bytes payload;
};

void append(Bytes& out, const Hello& message);
void append(Bytes& out, const Output& message);
void append(Bytes& out, const ProgramEnd& message);
void append(Bytes& out, const Stop& message);

// These throw PeerLostError on a message that is not what its type says.
Hello read_hello(const Message& message);
Output read_output(const Message& message);
ProgramEnd read_end(const Message& message);
Stop read_stop(const Message& message);

// Cuts a byte stream into messages.
class MessageReader {
 public:
  void feed(std::span<const std::byte> bytes);
  // The next complete message. Throws PeerLostError on a length or type that no agent sends.
  std::optional<Message> next();

 private:
  Bytes buffer_;
  std::size_t at_ = 0;
};

// Where agents find hvdrun: the value of kAgentVariable, "key port address,address".
struct AgentAddress {
  std::string key;
  std::uint16_t port = 0;
  std::vector<std::string> hosts;  // IPv4 addresses, tried in order
};

std::string to_string(const AgentAddress& address);
// Throws InvalidArgumentError.
AgentAddress parse_agent_address(std::string_view text);

}  // namespace hvd::runner
