#include "runner/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd::runner {
namespace {

using testing::ElementsAre;

Bytes conversation() {
  Bytes bytes;
  append(bytes, Hello{"key", 3, "node1"});
  append(bytes, Output{Stream::kStderr, std::string("a\0b\n", 4)});
  append(bytes, ProgramEnd{EndKind::kSignaled, 9, true, 1234567890123});
  append(bytes, Stop{15});
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
    ASSERT_EQ(messages.size(), 4u);
    const Hello hello = read_hello(messages[0]);
    EXPECT_EQ(hello.key, "key");
    EXPECT_EQ(hello.rank, 3);
    EXPECT_EQ(hello.host, "node1");
    const Output output = read_output(messages[1]);
    EXPECT_EQ(output.stream, Stream::kStderr);
    EXPECT_EQ(output.bytes, std::string("a\0b\n", 4));
    const ProgramEnd end = read_end(messages[2]);
    EXPECT_EQ(end.kind, EndKind::kSignaled);
    EXPECT_EQ(end.value, 9);
    EXPECT_TRUE(end.was_stopped);
    EXPECT_EQ(end.time, 1234567890123);
    EXPECT_EQ(read_stop(messages[3]).signal, 15);
  }
}

TEST(MessageReader, RefusesAStrangersBytes) {
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
  append(bytes, Hello{"key", 3, "node1"});
  MessageReader reader;
  reader.feed(bytes);
  Message message = *reader.next();
  message.payload.pop_back();
  EXPECT_THROW(read_hello(message), PeerLostError);
  message.payload.resize(message.payload.size() + 2);
  EXPECT_THROW(read_hello(message), PeerLostError);
}

TEST(Messages, RefuseAnotherTypeThanExpected) {
  EXPECT_THROW(read_hello({MessageType::kOutput, {}}), PeerLostError);
  EXPECT_THROW(read_stop({MessageType::kHello, {}}), PeerLostError);
}

TEST(AgentAddress, ReadsWhatItWrites) {
  const AgentAddress address =
      parse_agent_address(to_string({"abc", 4711, {"10.0.0.1", "10.1.0.1"}}));
  EXPECT_EQ(address.key, "abc");
  EXPECT_EQ(address.port, 4711);
  EXPECT_THAT(address.hosts, ElementsAre("10.0.0.1", "10.1.0.1"));
}

class BadAgentAddress : public testing::TestWithParam<const char*> {};

TEST_P(BadAgentAddress, IsRefused) {
  EXPECT_THROW(parse_agent_address(GetParam()), InvalidArgumentError);
}

INSTANTIATE_TEST_SUITE_P(Each, BadAgentAddress,
                         testing::Values("", "key", "key 1", "key x host", "key 0 host",
                                         "key 70000 host", "key 1 ", " 1 host"));

}  // namespace
}  // namespace hvd::runner
