#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "ops/net/tcp_endpoint.h"

// What agents and hvdrun say to each other, one TCP connection per rank, after the handshake of
// ops/net has proven both. Pure encoding.
namespace hvd::runner {

enum class Stream : std::uint8_t { kStdout = 0, kStderr };

// agent -> hvdrun, first message.
struct Hello {
  std::string host;
  std::string boot;  // boot_id(): agents with hvdrun's own have its clock
};

// agent -> hvdrun: bytes the program wrote.
struct Output {
  Stream stream = Stream::kStdout;
  std::string bytes;
};

// kLost is hvdrun's own word for a rank whose agent vanished; agents never send it.
enum class EndKind : std::uint8_t { kExited = 0, kSignaled, kNotStarted, kLost };

// agent -> hvdrun: how the program ended, at once. Output may follow.
struct ProgramEnd {
  EndKind kind = EndKind::kExited;
  std::int32_t value = 0;    // exit code, signal number or errno
  bool was_stopped = false;  // told to stop before it ended
  bool after_loss =
      false;              // its job had ended because of another rank: see core/config/loss_mark.h
  std::int64_t time = 0;  // the agent's Clock, nanoseconds
  std::string recording =
      {};  // folder on the agent's host with the rank's flight record; "" = none
};

// agent -> hvdrun, last message: all that the program wrote has been sent. hvdrun hangs up.
struct Done {};

// agent -> hvdrun: what its clock says.
struct ClockAnswer {
  std::int64_t asked = 0;     // of the question
  std::int64_t answered = 0;  // the agent's Clock, nanoseconds
};

// hvdrun -> agent: pass `signal` to the program; kill what still runs after the grace.
struct Stop {
  std::int32_t signal = 0;
};

// hvdrun -> agent: pass `signal` to the program, which goes on unless it ends by itself. SIGTSTP
// stops it whatever it does with that, until SIGCONT.
struct Signal {
  std::int32_t number = 0;
};

// hvdrun -> agent: so many more bytes of Output were taken. An agent lets its program wait rather
// than have more than a few on their way, so that no reader of hvdrun's output, however slow, makes
// one end of the connection stop reading what the other has to say.
struct Taken {
  std::uint32_t bytes = 0;
};

// hvdrun -> agent.
inline std::int64_t nanoseconds(TimePoint time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

struct ClockQuestion {
  std::int64_t asked = 0;  // hvdrun's Clock, nanoseconds
};

enum class MessageType : std::uint8_t {
  kHello = 0,
  kOutput,
  kEnd,
  kDone,
  kClockAnswer,
  kStop,
  kSignal,
  kTaken,
  kClockQuestion
};
inline constexpr unsigned kMessageTypes = 9;

struct Message {
  MessageType type = MessageType::kHello;
  Bytes payload;
};

void append(Bytes& out, const Hello& message);
void append(Bytes& out, const Output& message);
void append(Bytes& out, const ProgramEnd& message);
void append(Bytes& out, const Done& message);
void append(Bytes& out, const ClockAnswer& message);
void append(Bytes& out, const Stop& message);
void append(Bytes& out, const Signal& message);
void append(Bytes& out, const Taken& message);
void append(Bytes& out, const ClockQuestion& message);

// These throw PeerLostError on a message that is not what its type says.
Hello read_hello(const Message& message);
Output read_output(const Message& message);
ProgramEnd read_end(const Message& message);
ClockAnswer read_clock_answer(const Message& message);
Stop read_stop(const Message& message);
Signal read_signal(const Message& message);
Taken read_taken(const Message& message);
ClockQuestion read_clock_question(const Message& message);

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

// Where agents find hvdrun: the value of kAgentVariable, "key address:port,address:port".
struct AgentAddress {
  std::string key;                    // of the handshakes: 64 hexadecimal digits
  std::vector<TcpAddress> endpoints;  // of one hvdrun
};

std::string to_string(const AgentAddress& address);
// Throws InvalidArgumentError, without the key.
AgentAddress parse_agent_address(std::string_view text);

}  // namespace hvd::runner
