#include "ops/net/tcp_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "test/ops/net/tcp_world.h"

namespace hvd::engine {
namespace {

using host::MessageKey;
using host::Messages;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::ListeningRanks;
using test::RawSocket;
using test::text_message;
using testing::HasSubstr;

Bytes numbered(std::size_t count, int first = 0) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>((i + static_cast<std::size_t>(first)) * 7 % 251);
  }
  return bytes;
}

bool until(const std::function<bool()>& condition, Duration limit = seconds(20)) {
  const TimePoint deadline = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class TcpLinks : public testing::Test {
 protected:
  void arrive(Messages& one, Messages& other) {
    EXPECT_TRUE(until([&] {
      const bool first = one.arrived();
      return other.arrived() && first;
    }));
  }

  std::string loss(Messages& messages) {
    try {
      EXPECT_TRUE(until([&] { return messages.arrived(); }));
      ADD_FAILURE() << "nothing was lost";
    } catch (const LostRankError& error) {
      EXPECT_EQ(error.rank(), 1);
      return error.what();
    }
    return {};
  }

  ListeningRanks world_{2};
  std::unique_ptr<TcpControlPlane> planes_[2] = {world_.plane(0), world_.plane(1)};
  std::unique_ptr<TcpLink> links_[2] = {std::make_unique<TcpLink>(*planes_[0]),
                                        std::make_unique<TcpLink>(*planes_[1])};
};

TEST_F(TcpLinks, MoveMessagesOfEverySizeBothWays) {
  for (const std::size_t size : {0u, 1u, 100u, 4063u, 4064u, 65536u, 65537u, 3'000'000u}) {
    const Bytes sent[2] = {numbered(size), numbered(size, 1)};
    Bytes received[2] = {Bytes(size), Bytes(size)};
    const auto zero = links_[0]->messages();
    const auto one = links_[1]->messages();
    const MessageKey key{1, size, 2};
    zero->receive(1, key, received[0]);
    zero->send(1, key, sent[0]);
    one->send(0, key, sent[1]);
    one->receive(0, key, received[1]);
    arrive(*zero, *one);
    EXPECT_TRUE(zero->complete() && one->complete());
    EXPECT_TRUE(received[0] == sent[1] && received[1] == sent[0]) << size;
  }
}

TEST_F(TcpLinks, TellMessagesApartByTheirKeysAndKeepTheOrderOfEqualOnes) {
  const Bytes data[] = {numbered(10, 0), numbered(20, 1), numbered(30, 2), numbered(40, 3)};
  const MessageKey keys[] = {{1, 1, 0}, {1, 1, 1}, {1, 1, 0}, {2, 1, 0}};
  const auto sends = links_[0]->messages();
  for (int i = 0; i < 4; ++i) sends->send(1, keys[i], data[i]);
  EXPECT_TRUE(until([&] { return sends->arrived(); }));
  const auto receives = links_[1]->messages();
  Bytes received[] = {Bytes(10), Bytes(20), Bytes(30), Bytes(40)};
  for (const int i : {3, 0, 1, 2}) receives->receive(0, keys[i], received[i]);
  EXPECT_TRUE(until([&] { return receives->arrived(); }));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(received[i], data[i]) << i;
}

TEST_F(TcpLinks, MoveMessagesOfARankToItself) {
  const Bytes sent = numbered(3'000'000);
  Bytes received(sent.size());
  const auto messages = links_[0]->messages();
  messages->send(0, {1, 1, 0}, sent);
  messages->receive(0, {1, 1, 0}, received);
  EXPECT_TRUE(until([&] { return messages->arrived(); }));
  EXPECT_EQ(received, sent);
}

// Otherwise a rank that is behind would need memory without bound.
TEST_F(TcpLinks, LeaveWhatIsLargeInTheSocketUntilItsReceiveIsPosted) {
  const Bytes large = numbered(32u << 20);
  const Bytes small = numbered(100);
  const auto sends = links_[0]->messages();
  sends->send(1, {1, 1, 0}, large);
  sends->send(1, {1, 2, 0}, small);
  const auto second = links_[1]->messages();
  Bytes small_received(small.size());
  second->receive(0, {1, 2, 0}, small_received);
  EXPECT_FALSE(until([&] { return sends->arrived() || second->arrived(); }, milliseconds(100)));
  const auto first = links_[1]->messages();
  Bytes large_received(large.size());
  first->receive(0, {1, 1, 0}, large_received);
  EXPECT_TRUE(until([&] {
    const bool sent = sends->arrived();
    const bool received = first->arrived();
    return second->arrived() && received && sent;
  }));
  EXPECT_TRUE(large_received == large && small_received == small);
}

TEST_F(TcpLinks, KeepALimitedAmountOfWhatNobodyAwaits) {
  constexpr std::size_t kBytes = TcpReceivingStream::kLongestKept;
  constexpr int kCount = 400;  // more than is kept and the sockets hold
  const Bytes data = numbered(kBytes);
  const auto sends = links_[0]->messages();
  for (int i = 0; i < kCount; ++i) sends->send(1, {1, static_cast<std::uint64_t>(i), 0}, data);
  EXPECT_FALSE(until([&] { return links_[1]->flush() && sends->arrived(); }, milliseconds(200)));
  for (int i = 0; i < kCount; ++i) {
    Bytes received(kBytes);
    const auto receive = links_[1]->messages();
    receive->receive(0, {1, static_cast<std::uint64_t>(i), 0}, received);
    ASSERT_TRUE(until([&] {
      const bool received_it = receive->arrived();
      return sends->arrived() || received_it;
    })) << i;
    ASSERT_TRUE(until([&] {
      sends->arrived();
      return receive->arrived();
    }));
    ASSERT_TRUE(received == data) << i;
  }
}

TEST(TcpReceivingStream, KeepsALimitedNumberOfEmptyMessages) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd from(ends[0]);
  const UniqueFd to(ends[1]);
  TcpSendingStream sends;
  TcpReceivingStream receives;
  TcpOutstanding owner;
  for (std::uint64_t i = 0; i < TcpReceivingStream::kMostKept / kMessageHeaderBytes + 1; ++i) {
    ++owner.count;
    sends.post({{1, i, 0}, TcpMessageKind::kData, 0}, {}, &owner);
  }
  std::string why;
  EXPECT_TRUE(until([&] {
    sends.write(from.get(), why);
    receives.read(to.get(), why);
    return receives.blocked();
  }));
}

// The last ones have been read together with what is in front of them.
TEST_F(TcpLinks, GoOnWithWhatWasReadAheadWhenAReceiveIsPosted) {
  constexpr std::uint64_t kCount = 600;  // more than is kept
  const Bytes data = numbered(2000);
  const auto sends = links_[0]->messages();
  for (std::uint64_t i = 0; i < kCount; ++i) sends->send(1, {1, i, 0}, data);
  EXPECT_TRUE(until([&] { return links_[1]->flush() && sends->arrived(); }));
  EXPECT_FALSE(until([&] { return !links_[1]->flush(); }, milliseconds(100)));
  for (std::uint64_t i = 0; i < kCount; ++i) {
    Bytes received(data.size());
    const auto receive = links_[1]->messages();
    receive->receive(0, {1, i, 0}, received);
    ASSERT_TRUE(until([&] { return receive->arrived(); })) << i;
    ASSERT_EQ(received, data) << i;
  }
}

TEST_F(TcpLinks, SayWhenLessCameThanWasExpected) {
  const auto sends = links_[0]->messages();
  const auto receives = links_[1]->messages();
  const Bytes data = numbered(10);
  Bytes received(20);
  sends->send(1, {}, data);
  receives->receive(0, {}, received);
  arrive(*sends, *receives);
  EXPECT_FALSE(receives->complete());
}

TEST_F(TcpLinks, NameTheRankThatSentMoreThanWasExpected) {
  const auto receives = links_[0]->messages();
  const auto sends = links_[1]->messages();
  const Bytes data = numbered(20);
  Bytes received(10);
  sends->send(0, {}, data);
  receives->receive(1, {}, received);
  EXPECT_TRUE(until([&] { return sends->arrived(); }));
  EXPECT_THAT(loss(*receives), testing::AllOf(HasSubstr("rank 1 on host node1"),
                                              HasSubstr("20 bytes where 10 were expected")));
}

TEST_F(TcpLinks, NotesArriveInOrderWhetherOrNotAnybodyAwaitsThem) {
  const auto sends = links_[0]->messages();
  const Bytes data = numbered(100);
  for (int i = 0; i < 100; ++i) {
    links_[0]->say(1, text_message("note " + std::to_string(i)));
    sends->send(1, {1, static_cast<std::uint64_t>(i), 0}, data);
  }
  EXPECT_TRUE(until([&] { return links_[0]->flush(); }));
  for (int i = 0; i < 100; ++i) {
    std::optional<Message> note;
    ASSERT_TRUE(until([&] { return (note = links_[1]->hear()).has_value(); }));
    EXPECT_EQ(note->from, 0);
    EXPECT_EQ(note->bytes, text_message("note " + std::to_string(i)));
  }
}

// What follows meets its receives.
TEST_F(TcpLinks, StayInStepWhenASendIsWithdrawnHalfWay) {
  const Bytes large = numbered(16u << 20);
  const Bytes small = numbered(100);
  Bytes received(large.size());
  Bytes small_received(small.size());
  auto given_up = links_[0]->messages();
  given_up->send(1, {1, 1, 0}, large);
  given_up->send(1, {1, 2, 0}, small);  // has not begun
  const auto receives = links_[1]->messages();
  EXPECT_TRUE(until([&] { return links_[0]->flush(); }));
  EXPECT_FALSE(given_up->arrived());
  EXPECT_TRUE(given_up->withdraw());
  given_up.reset();
  const auto next = links_[0]->messages();
  next->send(1, {1, 3, 0}, small);
  receives->receive(0, {1, 1, 0}, received);
  receives->receive(0, {1, 2, 0}, small_received);
  const auto last = links_[1]->messages();
  Bytes last_received(small.size());
  last->receive(0, {1, 3, 0}, last_received);
  EXPECT_TRUE(until([&] {
    links_[0]->flush();
    const bool ended[] = {receives->arrived(), last->arrived(), next->arrived()};
    return std::ranges::all_of(ended, std::identity());
  }));
  EXPECT_FALSE(receives->complete());
  EXPECT_TRUE(last->complete());
  EXPECT_EQ(last_received, small);
}

TEST_F(TcpLinks, StayInStepWhenAReceiveIsWithdrawnHalfWay) {
  const Bytes large = numbered(16u << 20);
  const Bytes small = numbered(100);
  const auto sends = links_[0]->messages();
  sends->send(1, {1, 1, 0}, large);
  sends->send(1, {1, 2, 0}, large);
  sends->send(1, {1, 3, 0}, small);
  {
    Bytes received(large.size());
    const auto given_up = links_[1]->messages();
    given_up->receive(0, {1, 1, 0}, received);
    given_up->receive(0, {1, 2, 0}, received);
    EXPECT_TRUE(until([&] {
      sends->arrived();
      return given_up->arrived() || received[1000] != std::byte{};
    }));
    EXPECT_TRUE(given_up->withdraw());
  }
  const auto last = links_[1]->messages();
  Bytes received(small.size());
  last->receive(0, {1, 3, 0}, received);
  arrive(*sends, *last);
  EXPECT_EQ(received, small);
}

TEST_F(TcpLinks, NameARankThatGoesInTheMiddle) {
  const Bytes large = numbered(32u << 20);
  const auto sends = links_[0]->messages();
  sends->send(1, {1, 1, 0}, large);
  const auto receives = links_[1]->messages();
  Bytes received(large.size());
  receives->receive(0, {1, 1, 0}, received);
  EXPECT_TRUE(until([&] {
    sends->arrived();
    receives->arrived();
    return received[1u << 20] != std::byte{};
  }));
  receives->withdraw();
  links_[1].reset();
  planes_[1]->abort({StatusCode::kInternal, "it fails"});
  EXPECT_THAT(loss(*sends), HasSubstr("rank 1 on host node1"));
}

TEST_F(TcpLinks, SayNothingOfARankThatLeavesWhenNothingIsAwaitedOfIt) {
  const Bytes data = numbered(100);
  Bytes received(100);
  const auto sends = links_[1]->messages();
  sends->send(0, {}, data);
  EXPECT_TRUE(until([&] { return sends->arrived(); }));
  links_[1].reset();
  const auto receives = links_[0]->messages();
  receives->receive(1, {}, received);
  EXPECT_TRUE(until([&] { return receives->arrived(); }));
  EXPECT_EQ(received, data);
  EXPECT_FALSE(until([&] { return planes_[0]->poll() || !links_[0]->flush(); }, milliseconds(100)));
  const auto more = links_[0]->messages();
  more->receive(1, {1, 1, 1}, received);
  EXPECT_THAT(loss(*more), HasSubstr("rank 1 on host node1 is gone: its connection for tensors"));
}

TEST_F(TcpLinks, NameARankThatClosedItsEndWhileNothingWasSentToIt) {
  const Bytes data = numbered(100);
  Bytes received(100);
  const auto sends = links_[0]->messages();
  sends->send(1, {}, data);
  const auto receives = links_[1]->messages();
  receives->receive(0, {}, received);
  arrive(*sends, *receives);
  links_[1].reset();
  EXPECT_FALSE(until([&] { return planes_[0]->poll() || !links_[0]->flush(); }, milliseconds(100)));
  const auto more = links_[0]->messages();
  more->send(1, {}, data);
  EXPECT_THAT(loss(*more), HasSubstr("rank 1 on host node1 is gone: its connection for tensors"));
}

// Linux gives up a connection whose reader's buffer is full for TCP_USER_TIMEOUT.
TEST(TcpLinkPair, KeepsARankThatReadsNothingForLongerThanTheLimit) {
  ListeningRanks world(2);
  const std::unique_ptr<TcpControlPlane> planes[] = {world.plane(0, seconds(1)),
                                                     world.plane(1, seconds(1))};
  TcpLink zero(*planes[0]);
  TcpLink one(*planes[1]);
  const Bytes sent = numbered(32u << 20);
  Bytes received(sent.size());
  const auto sends = zero.messages();
  sends->send(1, {}, sent);
  EXPECT_FALSE(until([&] { return one.hear() || sends->arrived(); }, milliseconds(100)));
  EXPECT_FALSE(until([&] { return sends->arrived(); }, seconds(3)));
  const auto receives = one.messages();
  receives->receive(0, {}, received);
  EXPECT_TRUE(until([&] {
    const bool first = sends->arrived();
    return receives->arrived() && first;
  }));
  EXPECT_TRUE(received == sent);
}

// While it lives, this process can open nothing.
class WithoutDescriptors {
 public:
  WithoutDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{64, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    for (UniqueFd fd(dup(0)); fd; fd = UniqueFd(dup(0))) all_.push_back(std::move(fd));
  }
  ~WithoutDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
  std::vector<UniqueFd> all_;
};

TEST_F(TcpLinks, ConnectOnceThereAreDescriptorsAgain) {
  const Bytes data = numbered(1000);
  Bytes received(data.size());
  const auto sends = links_[0]->messages();
  const auto receives = links_[1]->messages();
  receives->receive(0, {}, received);
  {
    const WithoutDescriptors none;
    sends->send(1, {}, data);
    EXPECT_FALSE(until([&] { return receives->arrived(); }, milliseconds(300)));
  }
  arrive(*sends, *receives);
  EXPECT_EQ(received, data);
}

TEST(TcpLinkLoss, SaysThatThereWereNoDescriptors) {
  ListeningRanks world(2);
  const auto plane = world.plane(0, milliseconds(500));
  TcpLink link(*plane);
  const auto sends = link.messages();
  const Bytes data = numbered(1000);
  const WithoutDescriptors none;
  sends->send(1, {}, data);
  try {
    EXPECT_TRUE(until([&] { return sends->arrived(); }));
    ADD_FAILURE() << "it was sent";
  } catch (const LostRankError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Too many open files"));
  }
}

// Sleeps as a coordinator does.
TEST_F(TcpLinks, RingWhoSleeps) {
  const Bytes data = numbered(1000);
  Bytes received(data.size());
  for (std::uint64_t round = 0; round < 20; ++round) {
    links_[1]->begin_work();
    const auto receives = links_[1]->messages();
    receives->receive(0, {1, round, 0}, received);
    std::thread sender([&] {
      std::this_thread::sleep_for(milliseconds(2));
      const auto sends = links_[0]->messages();
      sends->send(1, {1, round, 0}, data);
      EXPECT_TRUE(until([&] { return sends->arrived(); }));
    });
    const TimePoint deadline = Clock::now() + seconds(10);
    while (true) {
      const auto seen = planes_[1]->doorbell().rings();
      if (receives->arrived()) break;
      const auto interval = links_[1]->prepare_sleep(false);
      planes_[1]->doorbell().wait_until(seen, interval ? Clock::now() + *interval : deadline);
      ASSERT_LT(Clock::now(), deadline) << "nobody rang";
    }
    links_[1]->end_work();
    sender.join();
  }
}

// One who polls reads for all: what has come for others rings no more.
TEST_F(TcpLinks, SleepOnlyWhenAllHaveAskedForWhatWasReadForAnother) {
  const Bytes data = numbered(1000);
  Bytes received[2] = {Bytes(data.size()), Bytes(data.size())};
  links_[1]->begin_work();
  const std::unique_ptr<Messages> receives[] = {links_[1]->messages(), links_[1]->messages()};
  for (std::uint64_t i : {0u, 1u}) receives[i]->receive(0, {1, i, 0}, received[i]);
  const auto sends = links_[0]->messages();
  sends->send(1, {1, 0, 0}, data);
  EXPECT_TRUE(until([&] { return sends->arrived(); }));
  EXPECT_TRUE(until([&] {
    EXPECT_FALSE(receives[1]->arrived());
    return received[0] == data;
  }));
  EXPECT_EQ(links_[1]->prepare_sleep(false), Duration::zero());
  EXPECT_TRUE(receives[0]->arrived());
  EXPECT_TRUE(until([&] { return !links_[1]->prepare_sleep(false); })) << "it never sleeps";
  links_[1]->end_work();
}

// Rank 0 has a link; rank 1 is what a test makes of it.
class TcpLinkPeers : public testing::Test {
 protected:
  RawSocket impersonate(const JobKey& key) const {
    return test::impersonate(1, 0, world_.endpoints[0], key, HandshakeService::kData);
  }
  // A header as a rank writes it.
  static Bytes header(std::uint32_t kind, std::uint64_t bytes) {
    Bytes written;
    ByteWriter out(written);
    out.put(std::uint64_t{1});
    out.put(std::uint64_t{1});
    out.put(std::uint32_t{0});
    out.put(kind);
    out.put(bytes);
    return written;
  }
  std::string loss() {
    try {
      EXPECT_TRUE(until([&] { return receives_->arrived(); }));
      ADD_FAILURE() << "nothing was lost";
    } catch (const LostRankError& error) {
      return error.what();
    }
    return {};
  }

  ListeningRanks world_{2};
  std::unique_ptr<TcpControlPlane> plane_ = world_.plane(0);
  TcpLink link_{*plane_};
  Bytes received_ = Bytes(100);
  std::unique_ptr<Messages> receives_ = [this] {
    auto messages = link_.messages();
    messages->receive(1, {1, 1, 0}, received_);
    return messages;
  }();
};

TEST_F(TcpLinkPeers, AreRefusedWithoutTheKeyAndDisturbNobody) {
  RawSocket other = impersonate(draw_key());  // has not confirmed: the welcome has another key
  other.write(Bytes(kConfirmBytes, std::byte{1}));
  EXPECT_TRUE(other.is_closed());
  RawSocket rank = impersonate(world_.key);
  EXPECT_TRUE(impersonate(world_.key).is_closed()) << "there is one already";
  rank.write(header(1, 100));
  rank.write(numbered(100));
  rank.write(Bytes(1, std::byte{1}));
  EXPECT_TRUE(until([&] { return receives_->arrived(); }));
  EXPECT_EQ(received_, numbered(100));
}

TEST_F(TcpLinkPeers, AreLostByNameWhenWhatTheySendIsMalformed) {
  RawSocket rank = impersonate(world_.key);
  rank.write(Bytes(64, std::byte{0x77}));
  EXPECT_THAT(loss(), testing::AllOf(HasSubstr("rank 1 on host node1"),
                                     HasSubstr("unknown kind of message")));
}

TEST_F(TcpLinkPeers, AreLostByNameWhenTheyAnnounceTooMuch) {
  RawSocket rank = impersonate(world_.key);
  rank.write(header(2, std::uint64_t{1} << 60));
  EXPECT_THAT(loss(), HasSubstr("message too long"));
}

TEST_F(TcpLinkPeers, ThatStopInAHeaderHoldUpNothingElseAndAreLostWhenTheyGo) {
  RawSocket rank = impersonate(world_.key);
  rank.write(std::span<const std::byte>(header(1, 100)).first(10));
  EXPECT_FALSE(until([&] { return receives_->arrived(); }, milliseconds(50)));
  rank.close();
  EXPECT_THAT(loss(), HasSubstr("closed in the middle of a message"));
}

}  // namespace
}  // namespace hvd::engine
