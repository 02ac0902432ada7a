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
#include "ops/net/channel.h"
#include "ops/net/tcp_socket.h"

// What agents and hvdrun say to each other, one TCP connection per agent, after the handshake of
// ops/net has proven both, as its frames. Each message is about one rank, or about none: kNoRank.
// kFields of a message are sent in this order.
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
  kClockQuestion,
  kStart
};
inline constexpr unsigned kMessageTypes = 10;

// Bytes of payload: of a command and its variables, more than any system starts a program with.
inline constexpr std::size_t kLargestMessage = 1 << 23;

// agent -> hvdrun, first message.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  std::string host;
  std::string boot;  // boot_id(): agents with hvdrun's own have its clock
  // TCP ports of the first agent's host that are free, 0 from the others: for MASTER_PORT, and for
  // the meeting of ranks of several hosts.
  std::uint16_t master_port = 0;
  std::uint16_t meeting_port = 0;
  static constexpr auto kFields =
      std::tuple(&Hello::host, &Hello::boot, &Hello::master_port, &Hello::meeting_port);
};

// hvdrun -> agent, of a rank: start its program.
struct Start {
  static constexpr MessageType kType = MessageType::kStart;
  std::string command;        // join()ed words
  std::string environment;    // join()ed "NAME=value", besides what the agent has itself
  std::string folder;         // in which it runs; "" = the agent's own
  bool on_terminal = true;    // its standard output; else a pipe
  std::uint32_t process = 0;  // a number that its rank's other processes have not; see Signal
  static constexpr auto kFields = std::tuple(&Start::command, &Start::environment, &Start::folder,
                                             &Start::on_terminal, &Start::process);
};

// Texts without zero bytes, as one.
std::string join(std::span<const std::string> texts);
std::vector<std::string> split_joined(std::string_view text);

// agent -> hvdrun, of a rank: bytes the program wrote.
struct Output {
  static constexpr MessageType kType = MessageType::kOutput;
  Stream stream = Stream::kStdout;
  std::string bytes;
  static constexpr auto kFields = std::tuple(&Output::stream, &Output::bytes);
};

// agent -> hvdrun, of a rank: how the program ended, at once. Output may follow.
struct ProgramEnd {
  static constexpr MessageType kType = MessageType::kEnd;
  EndKind kind = EndKind::kExited;
  std::int32_t value = 0;      // exit code, signal number or errno; kLost: ms without an answer
  bool was_stopped = false;    // told to stop before it ended
  bool after_loss = false;     // its job had ended because of another rank: loss_mark.h
  TimePoint time = {};         // on the agent's clock
  std::string recording = {};  // folder on its host with the rank's flight record; "" = none
  static constexpr auto kFields =
      std::tuple(&ProgramEnd::kind, &ProgramEnd::value, &ProgramEnd::was_stopped,
                 &ProgramEnd::after_loss, &ProgramEnd::time, &ProgramEnd::recording);
};

// agent -> hvdrun, of a rank: all that the program wrote has been sent. hvdrun hangs up when that
// holds for all ranks of the agent.
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

// hvdrun -> agent: pass `signal` to the programs; kill what still runs after the grace.
struct Stop {
  static constexpr MessageType kType = MessageType::kStop;
  std::int32_t signal = 0;
  static constexpr auto kFields = std::tuple(&Stop::signal);
};

// hvdrun -> agent: pass `signal` to the programs, which go on unless they end by themselves.
// SIGTSTP stops them whatever they do with that, until SIGCONT. Of a rank: to its process alone,
// but SIGKILL to its group; and to no other process than is meant, which may just have ended.
struct Signal {
  static constexpr MessageType kType = MessageType::kSignal;
  std::int32_t number = 0;
  std::uint32_t process = 0;  // of a rank
  static constexpr auto kFields = std::tuple(&Signal::number, &Signal::process);
};

// hvdrun -> agent, of a rank: this many more bytes of Output were taken. It lets its program wait
// rather than have more than a few on their way, so that no reader of hvdrun's output, however
// slow, makes one end of the connection stop reading what the other has to say.
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
  std::int32_t rank = engine::kNoRank;
  Bytes payload;
};

// Throws PeerLostError on a message that is not what its type says, or another one than M.
template <typename M>
M read(const Message& message) {
  if (message.type != M::kType) ByteReader::malformed("another message was expected");
  return decode_fields<M>(message.payload);
}

// Where agents find hvdrun: the value of kAgentVariable, "key address:port,address:port".
struct AgentAddress {
  std::string key;                            // of the handshakes: 64 hexadecimal digits
  std::vector<engine::TcpAddress> endpoints;  // of one hvdrun
};

std::string to_string(const AgentAddress& address);
// Throws InvalidArgumentError, without the key.
AgentAddress parse_agent_address(std::string_view text);

}  // namespace hvd::runner
