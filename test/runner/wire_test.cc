#include "runner/link/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <set>
#include <thread>

#include "runner/link/connection.h"
#include "test/support/temporary_folder.h"

namespace hvd::runner {
namespace {

TimePoint at(std::int64_t nanoseconds) {
  return TimePoint(std::chrono::nanoseconds(nanoseconds));
}

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    raw = engine::TcpDescriptor(ends[0]);
    connection = Connection(engine::TcpDescriptor(ends[1]));
  }
  void send(std::span<const std::byte> bytes) const {
    std::string why;
    EXPECT_EQ(engine::write_some(raw.get(), bytes, why), bytes.size());
  }

  engine::TcpDescriptor raw;
  Connection connection;
};

Bytes bytes_of(const auto&... said) {
  Pair pair;
  (pair.connection.say(said.first, said.second), ...);
  Bytes bytes(4096);
  std::string why;
  bytes.resize(engine::read_some(pair.raw.get(), bytes, why).value());
  return bytes;
}

Bytes conversation() {
  return bytes_of(
      std::pair(Hello{"node1", "boot", 4711, 4712}, engine::kNoRank),
      std::pair(Output{Stream::kStderr, std::string("a\0b\n", 4)}, 7),
      std::pair(ProgramEnd{EndKind::kSignaled, 9, true, true, at(1234567890123), "/tmp/job"},
                engine::kNoRank),
      std::pair(Stop{15}, engine::kNoRank), std::pair(Done{}, engine::kNoRank),
      std::pair(ClockAnswer{at(7), at(8)}, engine::kNoRank),
      std::pair(ClockQuestion{at(7)}, engine::kNoRank), std::pair(Taken{4711}, engine::kNoRank),
      std::pair(Signal{10}, engine::kNoRank),
      std::pair(Start{join(std::vector<std::string>{"a", "", "b c"}), "", "/tmp", false}, 3));
}

TEST(Connection, ReturnsWhatWasSentHoweverItIsCut) {
  const Bytes bytes = conversation();
  for (std::size_t step : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
    Pair pair;
    std::vector<Message> messages;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      pair.send(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
      EXPECT_TRUE(pair.connection.read());
      while (auto message = pair.connection.next()) messages.push_back(std::move(*message));
    }
    ASSERT_EQ(messages.size(), 10u);
    const Hello hello = read<Hello>(messages[0]);
    EXPECT_EQ(hello.host, "node1");
    EXPECT_EQ(hello.boot, "boot");
    EXPECT_EQ(hello.master_port, 4711);
    EXPECT_EQ(hello.meeting_port, 4712);
    EXPECT_EQ(messages[0].rank, engine::kNoRank);
    EXPECT_EQ(messages[1].rank, 7);
    const Output output = read<Output>(messages[1]);
    EXPECT_EQ(output.stream, Stream::kStderr);
    EXPECT_EQ(output.bytes, std::string("a\0b\n", 4));
    const ProgramEnd end = read<ProgramEnd>(messages[2]);
    EXPECT_EQ(end.kind, EndKind::kSignaled);
    EXPECT_EQ(end.value, 9);
    EXPECT_TRUE(end.was_stopped);
    EXPECT_TRUE(end.after_loss);
    EXPECT_EQ(end.time, at(1234567890123));
    EXPECT_EQ(end.recording, "/tmp/job");
    EXPECT_EQ(read<Stop>(messages[3]).signal, 15);
    EXPECT_EQ(messages[4].type, MessageType::kDone);
    EXPECT_EQ(read<ClockAnswer>(messages[5]).asked, at(7));
    EXPECT_EQ(read<ClockAnswer>(messages[5]).answered, at(8));
    EXPECT_EQ(read<ClockQuestion>(messages[6]).asked, at(7));
    EXPECT_EQ(read<Taken>(messages[7]).bytes, 4711u);
    EXPECT_EQ(read<Signal>(messages[8]).number, 10);
    const Start run = read<Start>(messages[9]);
    EXPECT_EQ(messages[9].rank, 3);
    EXPECT_EQ(split_joined(run.command), (std::vector<std::string>{"a", "", "b c"}));
    EXPECT_EQ(split_joined(run.environment), std::vector<std::string>{});
    EXPECT_EQ(run.folder, "/tmp");
    EXPECT_FALSE(run.on_terminal);
  }
}

TEST(Connection, RefusesAnotherProtocol) {
  Pair pair;
  const std::string http = "GET / HTTP/1.1\r\n";
  pair.send(std::as_bytes(std::span(http)));
  pair.connection.read();
  EXPECT_THROW(pair.connection.next(), PeerLostError);
}

TEST(Connection, RefusesAnUnknownType) {
  Bytes bytes = bytes_of(std::pair(Stop{15}, engine::kNoRank));
  bytes[4] = std::byte{99};
  Pair pair;
  pair.send(bytes);
  pair.connection.read();
  EXPECT_THROW(pair.connection.next(), PeerLostError);
}

TEST(Messages, RefuseATruncatedOrOverlongPayload) {
  Pair pair;
  pair.send(conversation());
  pair.connection.read();
  Message message = *pair.connection.next();
  message.payload.pop_back();
  EXPECT_THROW(read<Hello>(message), PeerLostError);
  message.payload.resize(message.payload.size() + 2);
  EXPECT_THROW(read<Hello>(message), PeerLostError);
}

TEST(Messages, RefuseAnotherTypeThanExpected) {
  EXPECT_THROW(read<Hello>({MessageType::kOutput, engine::kNoRank, {}}), PeerLostError);
  EXPECT_THROW(read<Stop>({MessageType::kHello, engine::kNoRank, {}}), PeerLostError);
}

TEST(KeyFile, IsWholeForAllWhoMakeItTogether) {
  const TemporaryFolder folder;
  for (int round = 0; round < 200; ++round) {
    const std::string path = folder.path() + "/" + std::to_string(round);
    std::array<std::string, 4> keys;
    {
      std::vector<std::jthread> threads;
      for (std::string& key : keys) {
        threads.emplace_back([&] { EXPECT_NO_THROW(key = read_key_file(path, true)); });
      }
    }
    EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), 1u);
  }
}

TEST(KeyFile, WithoutAnEndIsRefused) {
  EXPECT_THROW(read_key_file("/dev/zero", false), InvalidArgumentError);
}

TEST(AgentAddress, ReadsWhatItWrites) {
  const std::vector<engine::TcpAddress> endpoints = {{"10.0.0.1", 4711}, {"fe80::1", 4712}};
  const AgentAddress address = parse_agent_address(to_string(AgentAddress{"abc", endpoints}));
  EXPECT_EQ(address.key, "abc");
  EXPECT_EQ(address.endpoints, endpoints);
}

TEST(AgentAddress, IsRefusedWithoutShowingTheKey) {
  try {
    parse_agent_address("secret nowhere");
    FAIL() << "accepted";
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("secret")));
  }
}

class BadAgentAddress : public testing::TestWithParam<const char*> {};

TEST_P(BadAgentAddress, IsRefused) {
  EXPECT_THROW(parse_agent_address(GetParam()), InvalidArgumentError);
}

INSTANTIATE_TEST_SUITE_P(Each, BadAgentAddress,
                         testing::Values("", "key", "key ", "key 1", "key host",
                                         "key host:", "key host:x", "key host:0", "key host:70000",
                                         "key :1", "key host:1,", " host:1"));

}  // namespace
}  // namespace hvd::runner
