#include "test/fuzz/frames.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <thread>

#include "core/base/status.h"
#include "ops/connect/gpu_assignments.h"
#include "ops/connect/introduction.h"
#include "ops/connect/local_socket.h"
#include "ops/connect/rendezvous.h"
#include "ops/net/tcp_network.h"
#include "ops/net/tcp_stream.h"
#include "runner/link/connection.h"

namespace hvd::engine::test {
namespace {

using std::chrono::seconds;

enum class Reader : std::uint8_t {
  kNetwork,           // rank 0 of TcpNetwork, and who takes its connections for data
  kRendezvousServer,  // rank 0 of a rendezvous
  kRendezvousClient,  // another rank, whose peer plays rank 0
  kRunner,            // hvdrun, or an agent or relay
  kTexts,             // what ranks tell each other through a rendezvous
  kFile               // the file of file://
};
constexpr unsigned kReaders = 6;

constexpr Duration kLimit = seconds(10);  // nothing that is fuzzed takes so long
constexpr std::string_view kKey = "the key of a job";
constexpr host::MessageKey kOperation = {.set = 1, .operation = 1, .stage = 0};

// Something must not be: the fuzzer keeps the input.
void expect(bool fact) {
  if (!fact) std::abort();
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// The second byte of an input.
struct Sender {
  bool of_job;        // it goes through the handshake before it sends its bytes
  bool other;         // kNetwork: a connection for data; kRunner: hvdrun, and an agent reads
  std::size_t chunk;  // bytes at a time
};

Sender decode_sender(std::byte byte) {
  const auto bits = static_cast<unsigned>(byte);
  return {(bits & 1) != 0, (bits & 2) != 0, std::size_t{1} << (bits >> 4)};
}

constexpr std::byte encode_sender(bool of_job, bool other = false) {
  return static_cast<std::byte>((of_job ? 1 : 0) + (other ? 2 : 0) + 0xf0);
}

std::span<const std::byte> key() {
  return std::as_bytes(std::span(kKey));
}

Handshake calls(HandshakeService service, std::int32_t from) {
  return Handshake::caller(key(), {.service = service, .to = 0}, from);
}

Handshake listens(HandshakeService service) {
  return Handshake::listener(key(), {.service = service, .to = 0}, {});
}

// The other end of a connection. Without a handshake it sends its bytes at once.
class Peer {
 public:
  Peer(UniqueFd socket, std::optional<Handshake> handshake, std::span<const std::byte> bytes,
       std::size_t chunk, bool stays = false)
      : socket_(std::move(socket)),
        handshake_(std::move(handshake)),
        rest_(bytes),
        chunk_(chunk),
        stays_(stays) {}

  // Reads what came and sends what comes next, without a wait. False once it has hung up: when all
  // was sent (unless it stays), or when the other end has.
  bool act() {
    if (!socket_) return false;
    std::array<std::byte, 4096> buffer;
    ssize_t got = 0;
    while ((got = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0) {
      if (handshake_) handshake_->take(std::span(buffer).first(static_cast<std::size_t>(got)));
    }
    const bool goes_on = got < 0 && errno == EAGAIN && send_some();
    if (!goes_on) socket_.reset();
    return goes_on;
  }
  void act_until_over() {
    while (act()) {
      pollfd ready = {socket_.get(), POLLIN, 0};
      if (rest_.empty() || is_shaking_hands()) poll(&ready, 1, 1);
    }
  }

 private:
  bool is_shaking_hands() const {
    return handshake_ && handshake_->state() == Handshake::State::kGoing;
  }
  bool send_some() {
    if (handshake_) {
      const Bytes output = handshake_->take_output();
      if (!output.empty()) ::send(socket_.get(), output.data(), output.size(), MSG_NOSIGNAL);
      if (is_shaking_hands()) return true;
      if (handshake_->state() == Handshake::State::kFailed) return false;
    }
    if (rest_.empty()) return stays_;
    const ssize_t sent = ::send(socket_.get(), rest_.data(), std::min(chunk_, rest_.size()),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) rest_ = rest_.subspan(static_cast<std::size_t>(sent));
    return sent > 0 || errno == EAGAIN;
  }

  UniqueFd socket_;
  std::optional<Handshake> handshake_;
  std::span<const std::byte> rest_;
  std::size_t chunk_;
  bool stays_;
};

std::string fresh_name() {
  static int names = 0;
  return "hvd-fuzz-" + std::to_string(getpid()) + "-" + std::to_string(++names);
}

UniqueFd connect_to(const std::string& name) {
  std::string why;
  return connect_locally(name, why);
}

std::pair<UniqueFd, UniqueFd> connected() {
  int ends[2];
  expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// -- connections between ranks

void read_messages(int socket) {
  TcpReceivingStream stream;
  TcpOutstanding owner;
  Bytes first(8);
  Bytes second(100);
  std::string why;
  try {
    owner.count = 1;
    stream.post(kOperation, first, &owner);
    while (stream.read(socket, why).value_or(false)) {
    }
    owner.count += 1;
    stream.post(kOperation, first, &owner);  // perhaps one that was kept
    owner.count += 1;
    stream.post(host::kTransferKey, second, &owner);
    while (stream.read(socket, why).value_or(false)) {
    }
  } catch (const PeerLostError&) {
  }
  expect(owner.count <= 3);
  stream.withdraw(&owner);
  expect(!stream.awaited());
}

void read_network(const Sender& sender, std::span<const std::byte> bytes) {
  const std::string name = fresh_name();
  std::vector<TcpListener> listeners;
  listeners.push_back({TcpDescriptor(listen_locally(name).release()), {}});
  JobKey job{};
  std::ranges::copy(key(), job.begin());
  const std::string hosts[] = {"a", "b"};
  TcpNetwork network(place(0, hosts, hosts), std::move(listeners), {{}, {}}, job, kLimit);
  std::optional<Handshake> handshake;
  if (sender.of_job) {
    const auto service = sender.other ? HandshakeService::kData : HandshakeService::kControl;
    handshake = Handshake::caller(job, {.service = service, .to = 0}, 1);
  }
  Peer peer(connect_to(name), std::move(handshake), bytes, sender.chunk);
  for (int idle = 0; idle < 2; ++idle) {
    while (static_cast<int>(peer.act()) + static_cast<int>(network.serve()) > 0) idle = 0;
  }
  for (const TcpNetwork::Event& event : network.events()) {
    expect(sender.of_job && event.from == 1);
    expect(!event.lost || contains(event.why, "rank 1 on host b"));
  }
  for (const TcpNetwork::Data& each : network.data()) {
    expect(sender.of_job && each.peer == 1);
    if (each.socket) read_messages(each.socket.get());
  }
}

// -- the rendezvous

Bytes frame(FrameType type, std::span<const std::byte> payload) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(static_cast<std::uint32_t>(payload.size()));
  writer.put(type);
  writer.put(kNoRank);
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes of_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

const std::vector<std::string> kTexts = {"zero", "one"};

Bytes frames_of_rank_1() {
  return joined({frame(FrameType::kHello, encode_fields(RendezvousHello{2, 1})),
                 frame(FrameType::kText, of_text("one"))});
}

Bytes frames_of_rank_0() {
  return joined(
      {frame(FrameType::kWelcome, {}), frame(FrameType::kAnswer, encode_gathered(kTexts))});
}

Meeting meeting_at(const std::string& name, Rank rank) {
  return {.point = {MeetingPoint::Kind::kUnix, name},
          .rank = rank,
          .size = 2,
          .key = std::string(kKey),
          .one_host = true};
}

// A peer, and when it is gone rank 1, meet rank 0. Who does not know the key changes nothing.
void read_as_server(const Sender& sender, std::span<const std::byte> bytes) {
  const std::string name = fresh_name();
  const Meeting meeting = meeting_at(name, 0);
  std::optional<RendezvousServer> server;
  server.emplace(meeting, RendezvousSockets::of_point(meeting), meeting.key);
  std::thread others([&] {
    std::optional<Handshake> handshake;
    if (sender.of_job) handshake = calls(HandshakeService::kRendezvous, 1);
    Peer(connect_to(name), std::move(handshake), bytes, sender.chunk).act_until_over();
    const Bytes proper = frames_of_rank_1();
    Peer(connect_to(name), calls(HandshakeService::kRendezvous, 1), proper, proper.size(), true)
        .act_until_over();
  });
  bool met = false;
  try {
    const auto texts = server->all_gather("zero", Clock::now() + kLimit);
    met = texts == kTexts;
  } catch (const StalledError&) {
    std::abort();
  } catch (const Error& error) {
    expect(*error.what() != '\0');
  }
  expect(met || sender.of_job);
  server.reset();
  others.join();
}

// A peer, and when it is gone rank 0, is where rank 1 looks for rank 0.
void read_as_client(const Sender& sender, std::span<const std::byte> bytes) {
  const std::string name = fresh_name();
  const UniqueFd listener = listen_locally(name);
  std::atomic<bool> over{false};
  std::thread others([&] {
    const Bytes proper = frames_of_rank_0();
    for (int called = 0; !over;) {
      pollfd ready = {listener.get(), POLLIN, 0};
      if (poll(&ready, 1, 1) == 0) continue;
      const bool is_proper = ++called > 1;
      std::optional<Handshake> handshake;
      if (sender.of_job || is_proper) handshake = listens(HandshakeService::kRendezvous);
      Peer(accept_locally(listener), std::move(handshake), is_proper ? proper : bytes, sender.chunk,
           is_proper)
          .act_until_over();
    }
  });
  try {
    const TimePoint deadline = Clock::now() + kLimit;
    RendezvousClient client(meeting_at(name, 1), deadline);
    const auto texts = client.all_gather("one", deadline);
    expect(sender.of_job || texts == kTexts);
  } catch (const PeerLostError& error) {
    expect(sender.of_job || contains(error.what(), name.c_str()));
  } catch (const Error&) {
    expect(sender.of_job);  // what rank 0 answers that the gathering failed of
  }
  over = true;
  others.join();
}

// -- hvdrun, its agents and relays

void decode_message(const runner::Message& message) {
  using enum runner::MessageType;
  switch (message.type) {
    case kHello:
      runner::read<runner::Hello>(message);
      return;
    case kOutput:
      runner::read<runner::Output>(message);
      return;
    case kEnd:
      runner::read<runner::ProgramEnd>(message);
      return;
    case kDone:
      runner::read<runner::Done>(message);
      return;
    case kClockAnswer:
      runner::read<runner::ClockAnswer>(message);
      return;
    case kStop:
      runner::read<runner::Stop>(message);
      return;
    case kSignal:
      runner::read<runner::Signal>(message);
      return;
    case kTaken:
      runner::read<runner::Taken>(message);
      return;
    case kClockQuestion:
      runner::read<runner::ClockQuestion>(message);
      return;
    case kStart: {
      const auto start = runner::read<runner::Start>(message);
      runner::split_joined(start.command);
      runner::split_joined(start.environment);
      return;
    }
  }
  std::abort();
}

void read_as_runner(const Sender& sender, std::span<const std::byte> bytes) {
  auto [own, others] = connected();
  constexpr auto kService = HandshakeService::kRunner;
  std::optional<Handshake> theirs;
  if (sender.of_job) theirs = sender.other ? listens(kService) : calls(kService, 1);
  Peer peer(std::move(others), std::move(theirs), bytes, sender.chunk);
  runner::Connection connection(TcpDescriptor(own.release()),
                                sender.other ? calls(kService, 1) : listens(kService));
  while (!connection.shake_hands()) {
    const bool failed = connection.handshake().state() == Handshake::State::kFailed;
    if (failed || connection.ended()) return;
    peer.act();
  }
  expect(sender.of_job);
  try {
    do {
      peer.act();
      connection.read();
      while (const auto message = connection.next()) decode_message(*message);
    } while (!connection.ended());
  } catch (const PeerLostError&) {
  }
}

// -- texts and files

Introduction introduction() {
  return {build_and_layout(), "a", "boot", {1, 2}, {{"HOROVOD_CYCLE_TIME", "2"}}};
}

template <typename Decode>
void decode_text(const Decode& decode) {
  try {
    decode();
  } catch (const PeerLostError&) {
  }
}

void read_texts(std::span<const std::byte> bytes) {
  const std::string text = to_text(bytes);
  const std::string texts[] = {encode(introduction()), text};
  try {
    decode_introductions(texts);
  } catch (const UnsupportedError& error) {
    expect(contains(error.what(), "different builds"));
  } catch (const PeerLostError& error) {
    expect(contains(error.what(), "rank 1"));
  }
  decode_text([&] { decode_fields<GpuAssignment>(bytes); });
  decode_text([&] {
    ByteReader in(bytes);
    deserialize<TcpEndpoint>(in);
  });
  try {
    runner::parse_agent_address(text);
  } catch (const InvalidArgumentError& error) {
    expect(contains(error.what(), "agent"));
  }
}

void read_file(std::span<const std::byte> bytes) {
  static const std::string path = "/tmp/" + fresh_name();
  {
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    expect(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  try {
    expect(read_rendezvous_file(path).has_value());
  } catch (const InvalidArgumentError& error) {
    expect(contains(error.what(), path.c_str()));
  }
  unlink(path.c_str());
}

}  // namespace

void read_as_peer(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  const auto reader = static_cast<Reader>(static_cast<unsigned>(input[0]) % kReaders);
  const Sender sender = decode_sender(input[1]);
  const auto bytes = input.subspan(2);
  switch (reader) {
    case Reader::kNetwork:
      return read_network(sender, bytes);
    case Reader::kRendezvousServer:
      return read_as_server(sender, bytes);
    case Reader::kRendezvousClient:
      return read_as_client(sender, bytes);
    case Reader::kRunner:
      return read_as_runner(sender, bytes);
    case Reader::kTexts:
      return read_texts(bytes);
    case Reader::kFile:
      return read_file(bytes);
  }
}

namespace {

Bytes messages_between_ranks() {
  TcpSendingStream stream;
  TcpOutstanding owner;
  const Bytes data(8);
  owner.count = 3;
  stream.post({kOperation, TcpMessageKind::kData, data.size()}, data, &owner);
  stream.post({kOperation, TcpMessageKind::kData, data.size()}, data, &owner);
  stream.post_note(Bytes(30));
  const Bytes transfer(100);
  stream.post({host::kTransferKey, TcpMessageKind::kData, transfer.size()}, transfer, &owner);
  const auto [from, to] = connected();
  std::string why;
  expect(stream.write(from.get(), why) == true);
  Bytes bytes(4096);
  bytes.resize(read_some(to.get(), bytes, why).value());
  return bytes;
}

// What `say` sends over a connection.
template <typename Say>
Bytes bytes_of(const Say& say) {
  auto [from, to] = connected();
  runner::Connection connection{TcpDescriptor(from.release())};
  say(connection);
  std::string why;
  Bytes bytes(4096);
  bytes.resize(read_some(to.get(), bytes, why).value());
  return bytes;
}

Bytes said_between_ranks(TcpFrameKind kind, const Bytes& body) {
  Bytes frame;
  append_frame(frame, static_cast<std::uint8_t>(kind), kNoRank, body);
  return frame;
}

Bytes messages_of_agent() {
  return bytes_of([](runner::Connection& hvdrun) {
    hvdrun.say(runner::Hello{"a", "boot", 1, 2});
    hvdrun.say(runner::Output{runner::Stream::kStderr, "text\n"}, 1);
    hvdrun.say(runner::ClockAnswer{});
    hvdrun.say(runner::ProgramEnd{.value = 1, .recording = "/tmp"}, 1);
    hvdrun.say(runner::Done{}, 1);
  });
}

Bytes messages_of_hvdrun() {
  return bytes_of([](runner::Connection& agent) {
    const std::string words[] = {"python", "train.py"};
    agent.say(runner::Start{runner::join(words), runner::join(words), "/", true}, 1);
    agent.say(runner::ClockQuestion{});
    agent.say(runner::Taken{5}, 1);
    agent.say(runner::Signal{2}, 1);
    agent.say(runner::Stop{15});
  });
}

}  // namespace

std::vector<std::pair<std::string, Bytes>> frames_of_real_peers() {
  std::vector<std::pair<std::string, Bytes>> all;
  const auto add = [&](const std::string& name, Reader reader, std::byte sender,
                       const Bytes& bytes) {
    all.emplace_back(name, joined({{static_cast<std::byte>(reader), sender}, bytes}));
  };
  constexpr std::byte kUnknown = encode_sender(false);
  constexpr std::byte kOfJob = encode_sender(true);
  constexpr std::byte kOther = encode_sender(true, true);
  add("hello_control", Reader::kNetwork, kUnknown,
      calls(HandshakeService::kControl, 1).take_output());
  add("hello_data", Reader::kNetwork, kUnknown, calls(HandshakeService::kData, 1).take_output());
  add("control", Reader::kNetwork, kOfJob,
      joined({said_between_ranks(TcpFrameKind::kMessage, of_text("message")),
              said_between_ranks(TcpFrameKind::kHeartbeat, {}),
              said_between_ranks(TcpFrameKind::kGoodbye, {})}));
  add("failure", Reader::kNetwork, kOfJob,
      said_between_ranks(TcpFrameKind::kFailure, of_text("why")));
  add("data", Reader::kNetwork, kOther, messages_between_ranks());
  const Bytes hello = calls(HandshakeService::kRendezvous, 1).take_output();
  add("hello_rendezvous", Reader::kRendezvousServer, kUnknown, hello);
  add("rank_1", Reader::kRendezvousServer, kOfJob, frames_of_rank_1());
  Handshake listener = listens(HandshakeService::kRendezvous);
  listener.take(hello);
  add("welcome", Reader::kRendezvousClient, kUnknown, listener.take_output());
  add("rank_0", Reader::kRendezvousClient, kOfJob, frames_of_rank_0());
  add("no_rank_0", Reader::kRendezvousClient, kOfJob,
      frame(FrameType::kAnswer, encode_gather_failure({StatusCode::kStalled, "late"})));
  add("hello_runner", Reader::kRunner, kUnknown, calls(HandshakeService::kRunner, 1).take_output());
  add("agent", Reader::kRunner, kOfJob, messages_of_agent());
  add("hvdrun", Reader::kRunner, kOther, messages_of_hvdrun());
  add("introduction", Reader::kTexts, kUnknown, of_text(encode(introduction())));
  Bytes endpoint;
  ByteWriter writer(endpoint);
  serialize(writer, TcpEndpoint{{{"10.0.0.1", 29400}, {"fd00::1", 29400}}});
  add("endpoint", Reader::kTexts, kUnknown, endpoint);
  add("agent_address", Reader::kTexts, kUnknown, of_text("0123 10.0.0.1:29400,[fd00::1]:29400"));
  add("file", Reader::kFile, kUnknown,
      of_text("horovod_cpp rendezvous 2\nboot\nhvd-1-2\nsecret\n10.0.0.1:29400\n"));
  return all;
}

}  // namespace hvd::engine::test
