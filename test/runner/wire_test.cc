#include "runner/link/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::runner {
namespace {

TimePoint at(std::int64_t nanoseconds) {
  return TimePoint(std::chrono::nanoseconds(nanoseconds));
}

Bytes conversation() {
  Bytes bytes;
  append(bytes, Hello{"node1", "boot", 4711, 4712});
  append(bytes, Output{Stream::kStderr, std::string("a\0b\n", 4)}, 7);
  append(bytes, ProgramEnd{EndKind::kSignaled, 9, true, true, at(1234567890123), "/tmp/job"});
  append(bytes, Stop{15});
  append(bytes, Done{});
  append(bytes, ClockAnswer{at(7), at(8)});
  append(bytes, ClockQuestion{at(7)});
  append(bytes, Taken{4711});
  append(bytes, Signal{10});
  append(bytes, Start{join(std::vector<std::string>{"a", "", "b c"}), "", "/tmp", false}, 3);
  return bytes;
}

TEST(MessageReader, ReturnsWhatWasSentHoweverItIsCut) {
  const Bytes bytes = conversation();
  for (std::size_t step : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
    MessageReader reader;
    std::vector<Message> messages;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      reader.feed(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
      while (auto message = reader.next()) messages.push_back(std::move(*message));
    }
    ASSERT_EQ(messages.size(), 10u);
    const Hello hello = read<Hello>(messages[0]);
    EXPECT_EQ(hello.host, "node1");
    EXPECT_EQ(hello.boot, "boot");
    EXPECT_EQ(hello.master_port, 4711);
    EXPECT_EQ(hello.meeting_port, 4712);
    EXPECT_EQ(messages[0].rank, kNoRank);
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

TEST(MessageReader, RefusesAnotherProtocol) {
  MessageReader reader;
  const std::string http = "GET / HTTP/1.1\r\n";
  reader.feed(std::as_bytes(std::span(http)));
  EXPECT_THROW(reader.next(), PeerLostError);
}

TEST(MessageReader, RefusesAnUnknownType) {
  Bytes bytes;
  append(bytes, Stop{15});
  bytes[4] = std::byte{99};
  MessageReader reader;
  reader.feed(bytes);
  EXPECT_THROW(reader.next(), PeerLostError);
}

TEST(Messages, RefuseATruncatedOrOverlongPayload) {
  Bytes bytes;
  append(bytes, Hello{"node1", "boot", 4711, 4712});
  MessageReader reader;
  reader.feed(bytes);
  Message message = *reader.next();
  message.payload.pop_back();
  EXPECT_THROW(read<Hello>(message), PeerLostError);
  message.payload.resize(message.payload.size() + 2);
  EXPECT_THROW(read<Hello>(message), PeerLostError);
}

TEST(Messages, RefuseAnotherTypeThanExpected) {
  EXPECT_THROW(read<Hello>({MessageType::kOutput, kNoRank, {}}), PeerLostError);
  EXPECT_THROW(read<Stop>({MessageType::kHello, kNoRank, {}}), PeerLostError);
}

TEST(AgentAddress, ReadsWhatItWrites) {
  const std::vector<TcpAddress> endpoints = {{"10.0.0.1", 4711}, {"fe80::1", 4712}};
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
