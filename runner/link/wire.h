#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/fields.h"
#include "ops/net/tcp_socket.h"

// What agents and hvdrun say to each other, one TCP connection per rank, after the handshake of
// ops/net has proven both. Pure encoding: kFields of a message are sent in this order.
namespace hvd::runner {

enum class Stream : std::uint8_t { kStdout = 0, kStderr };

// kLost is hvdrun's own word for a rank whose agent vanished; agents never send it.
enum class EndKind : std::uint8_t { kExited = 0, kSignaled, kNotStarted, kLost };

}  // namespace hvd::runner

template <>
inline constexpr unsigned hvd::kValues<hvd::runner::Stream> = 2;
template <>
inline constexpr unsigned hvd::kValues<hvd::runner::EndKind> = 3;

namespace hvd::runner {

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

// agent -> hvdrun, first message.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  std::string host;
  std::string boot;  // boot_id(): agents with hvdrun's own have its clock
  static constexpr auto kFields = std::tuple(&Hello::host, &Hello::boot);
};

// agent -> hvdrun: bytes the program wrote.
struct Output {
  static constexpr MessageType kType = MessageType::kOutput;
  Stream stream = Stream::kStdout;
  std::string bytes;
  static constexpr auto kFields = std::tuple(&Output::stream, &Output::bytes);
};

// agent -> hvdrun: how the program ended, at once. Output may follow.
struct ProgramEnd {
  static constexpr MessageType kType = MessageType::kEnd;
  EndKind kind = EndKind::kExited;
  std::int32_t value = 0;      // exit code, signal number or errno
  bool was_stopped = false;    // told to stop before it ended
  bool after_loss = false;     // its job had ended because of another rank: loss_mark.h
  TimePoint time = {};         // on the agent's clock
  std::string recording = {};  // folder on its host with the rank's flight record; "" = none
  static constexpr auto kFields =
      std::tuple(&ProgramEnd::kind, &ProgramEnd::value, &ProgramEnd::was_stopped,
                 &ProgramEnd::after_loss, &ProgramEnd::time, &ProgramEnd::recording);
};

// agent -> hvdrun, last message: all that the program wrote has been sent. hvdrun hangs up.
struct Done {
  static constexpr MessageType kType = MessageType::kDone;
  static constexpr auto kFields = std::tuple();
};

// agent -> hvdrun: what its clock says.
struct ClockAnswer {
  static constexpr MessageType kType = MessageType::kClockAnswer;
  TimePoint asked;     // of the question
  TimePoint answered;  // on the agent's clock
  static constexpr auto kFields = std::tuple(&ClockAnswer::asked, &ClockAnswer::answered);
};

// hvdrun -> agent: pass `signal` to the program; kill what still runs after the grace.
struct Stop {
  static constexpr MessageType kType = MessageType::kStop;
  std::int32_t signal = 0;
  static constexpr auto kFields = std::tuple(&Stop::signal);
};

// hvdrun -> agent: pass `signal` to the program, which goes on unless it ends by itself. SIGTSTP
// stops it whatever it does with that, until SIGCONT.
struct Signal {
  static constexpr MessageType kType = MessageType::kSignal;
  std::int32_t number = 0;
  static constexpr auto kFields = std::tuple(&Signal::number);
};

// hvdrun -> agent: so many more bytes of Output were taken. An agent lets its program wait rather
// than have more than a few on their way, so that no reader of hvdrun's output, however slow, makes
// one end of the connection stop reading what the other has to say.
struct Taken {
  static constexpr MessageType kType = MessageType::kTaken;
  std::uint32_t bytes = 0;
  static constexpr auto kFields = std::tuple(&Taken::bytes);
};

// hvdrun -> agent.
struct ClockQuestion {
  static constexpr MessageType kType = MessageType::kClockQuestion;
  TimePoint asked;  // on hvdrun's clock
  static constexpr auto kFields = std::tuple(&ClockQuestion::asked);
};

struct Message {
  MessageType type = MessageType::kHello;
  Bytes payload;
};

// Appends the header, whose length is filled in later; returns where it is.
std::size_t begin_message(Bytes& out, MessageType type);
void end_message(Bytes& out, std::size_t at);

template <typename M>
void append(Bytes& out, const M& message) {
  const std::size_t at = begin_message(out, M::kType);
  ByteWriter writer(out);
  put_fields(writer, message);
  end_message(out, at);
}

// Throws PeerLostError on a message that is not what its type says, or another one than M.
template <typename M>
M read(const Message& message) {
  if (message.type != M::kType) ByteReader::malformed("another message was expected");
  return decode_fields<M>(message.payload);
}

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
