// Unauthenticated peers at the port of a rank, and ranks that break off.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>

#include "test/ops/net/tcp_world.h"
#include "test/support/attempts.h"
#include "test/support/control_plane_contract.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::caller;
using test::ListeningRanks;
using test::next_message;
using test::RawSocket;
using test::text_message;
using testing::HasSubstr;

// Rank 0 of three ranks listens; rank 1 is real, rank 2 is what a test makes of it.
class TcpPeers : public testing::Test {
 protected:
  void expect_the_job_goes_on() {
    one_->send(0, text_message("still here"));
    EXPECT_EQ(next_message(*zero_).bytes, text_message("still here"));
  }

  std::string loss_of_rank_2() {
    try {
      next_message(*zero_);
      ADD_FAILURE() << "a message instead of a loss";
    } catch (const LostRankError& error) {
      EXPECT_EQ(error.rank(), 2);
      return error.what();
    }
    return {};
  }

  std::uint16_t port() const { return test::loopback_port(world_.endpoints[0]); }
  RawSocket impersonate(Rank rank) const {
    return test::impersonate(rank, 0, world_.endpoints[0], world_.key);
  }

  ListeningRanks world_{3};
  std::unique_ptr<TcpControlPlane> zero_ = world_.plane(0);
  std::unique_ptr<TcpControlPlane> one_ = world_.plane(1);
};

TEST_F(TcpPeers, AreRefusedWithoutTheKey) {
  RawSocket raw(port());
  Handshake handshake = caller(2, 0, draw_key());
  raw.write(handshake.take_output());
  handshake.take(raw.read(kWelcomeBytes));
  EXPECT_EQ(handshake.fault(), Handshake::Fault::kKey);
  raw.write(Bytes(kConfirmBytes));
  EXPECT_TRUE(raw.is_closed());
  expect_the_job_goes_on();
}

TEST_F(TcpPeers, AreRefusedWithTheKeyButNoSuchRank) {
  for (const auto& [from, to] :
       {std::pair(3, 0), std::pair(-1, 0), std::pair(0, 0), std::pair(2, 1)}) {
    RawSocket raw(port());
    Handshake handshake = caller(from, to, world_.key);
    raw.write(handshake.take_output());
    handshake.take(raw.read(kWelcomeBytes));
    EXPECT_EQ(handshake.fault(), Handshake::Fault::kRefused) << handshake.why();
    EXPECT_TRUE(raw.is_closed()) << from << " to " << to;
  }
  expect_the_job_goes_on();
}

// What was said to one rank proves nothing to another.
TEST_F(TcpPeers, CannotUseWhatARankSaidElsewhere) {
  RawSocket listens(port());
  Handshake rank = caller(2, 0, world_.key);
  const Bytes hello = rank.take_output();
  listens.write(hello);
  rank.take(listens.read(kWelcomeBytes));
  const Bytes confirm = rank.take_output();
  RawSocket replays(port());
  replays.write(hello);
  EXPECT_EQ(replays.read(kWelcomeBytes).size(), kWelcomeBytes);
  replays.write(confirm);
  EXPECT_TRUE(replays.is_closed());
  expect_the_job_goes_on();
}

TEST_F(TcpPeers, AreRefusedWhenTheySpeakSomethingElse) {
  RawSocket http(port());
  http.write(text_message("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
  EXPECT_TRUE(http.is_closed());
  RawSocket short_one(port());
  short_one.write(Bytes(kHelloBytes, std::byte{0x5a}));
  EXPECT_TRUE(short_one.is_closed());
  RawSocket long_one(port());
  long_one.write(Bytes(100'000, std::byte{0x5a}));
  EXPECT_TRUE(long_one.is_closed());
  expect_the_job_goes_on();
}

TEST_F(TcpPeers, ThatSayNothingKeepNobodyOut) {
  std::deque<RawSocket> silent;
  for (std::size_t i = 0; i < 3 * TcpNetwork::kMaxUnauthenticatedPeers; ++i)
    silent.emplace_back(port());
  expect_the_job_goes_on();
  EXPECT_TRUE(silent.front().is_closed()) << "the oldest ones make room";
}

TEST_F(TcpPeers, ThatSayNothingMakeRoomBeforeOneThatSaidHello) {
  RawSocket rank(port());
  Handshake handshake = caller(2, 0, world_.key);
  rank.write(handshake.take_output());
  handshake.take(rank.read(kWelcomeBytes));
  std::deque<RawSocket> silent;
  for (std::size_t i = 0; i < 2 * TcpNetwork::kMaxUnauthenticatedPeers; ++i)
    silent.emplace_back(port());
  EXPECT_TRUE(silent.front().is_closed());
  rank.write(handshake.take_output());
  rank.write(test::make_frame(TcpFrameKind::kMessage, text_message("it is up")));
  EXPECT_EQ(next_message(*zero_).bytes, text_message("it is up"));
}

TEST_F(TcpPeers, ThatSayHelloAndNothingElseKeepNobodyOut) {
  std::deque<RawSocket> idle;
  for (std::size_t i = 0; i < 3 * TcpNetwork::kMaxUnauthenticatedPeers; ++i) {
    idle.emplace_back(port());
    idle.back().write(caller(2, 0, draw_key()).take_output());
  }
  expect_the_job_goes_on();
  EXPECT_LE(idle.front().read(2 * kWelcomeBytes).size(), kWelcomeBytes);
  EXPECT_TRUE(idle.front().is_closed()) << "the oldest ones make room";
}

TEST_F(TcpPeers, HaveALimitedTimeToProveTheirName) {
  RawSocket silent(port());
  RawSocket half(port());
  Bytes hello = caller(2, 0, world_.key).take_output();
  half.write(std::span(hello).first(20));
  RawSocket welcomed(port());
  welcomed.write(hello);
  EXPECT_EQ(welcomed.read(kWelcomeBytes).size(), kWelcomeBytes);
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(half.is_closed());
  EXPECT_TRUE(welcomed.is_closed());
  expect_the_job_goes_on();
}

TEST_F(TcpPeers, BecomeNoRankBeforeTheyConfirm) {
  RawSocket raw(port());
  raw.write(caller(2, 0, world_.key).take_output());
  EXPECT_EQ(raw.read(kWelcomeBytes).size(), kWelcomeBytes);
  raw.close();
  RawSocket wrong(port());
  wrong.write(caller(2, 0, world_.key).take_output());
  EXPECT_EQ(wrong.read(kWelcomeBytes).size(), kWelcomeBytes);
  wrong.write(test::make_frame(TcpFrameKind::kMessage, Bytes(kConfirmBytes)));
  EXPECT_TRUE(wrong.is_closed());
  RawSocket rank = impersonate(2);
  rank.write(test::make_frame(TcpFrameKind::kMessage, text_message("now")));
  EXPECT_EQ(next_message(*zero_).bytes, text_message("now"));
}

TEST_F(TcpPeers, ThatClaimAConnectedOrLostRankAreRefused) {
  RawSocket rank = impersonate(2);
  rank.write(test::make_frame(TcpFrameKind::kMessage, text_message("here")));
  EXPECT_EQ(next_message(*zero_).bytes, text_message("here"));
  EXPECT_TRUE(impersonate(2).is_closed());
  rank.close();
  EXPECT_THAT(loss_of_rank_2(), HasSubstr("closed without a goodbye"));
  EXPECT_TRUE(impersonate(2).is_closed());
  EXPECT_FALSE(zero_->poll().has_value());
}

TEST_F(TcpPeers, ARankWhoseSocketClosesIsLostByNameAfterItsLastMessage) {
  RawSocket rank = impersonate(2);
  rank.write(test::make_frame(TcpFrameKind::kMessage, text_message("the last")));
  rank.close();
  EXPECT_EQ(next_message(*zero_).bytes, text_message("the last"));
  EXPECT_EQ(loss_of_rank_2(),
            "rank 2 on host node2 is gone: its connection closed without a goodbye");
  expect_the_job_goes_on();
}

// It may have left because the job failed, and rank 1 is about to say why.
TEST_F(TcpPeers, ARankThatLeavesBeforeTensorsReachItIsMissedAfterWhatOthersSayOfIt) {
  const auto reason_comes_first = [] {
    ListeningRanks world(3);
    const auto zero = world.plane(0);
    const auto one = world.plane(1);
    RawSocket rank = test::impersonate(2, 0, world.endpoints[0], world.key);
    rank.write(test::make_frame(TcpFrameKind::kMessage, text_message("here")));
    EXPECT_EQ(next_message(*zero).bytes, text_message("here"));
    zero->open_data(2);  // which nobody answers
    rank.write(test::make_frame(TcpFrameKind::kGoodbye, {}));
    EXPECT_TRUE(rank.is_closed());
    one->send(0, text_message("why"));
    EXPECT_EQ(next_message(*zero).bytes, text_message("why"));
    return zero->take_data().empty();
  };
  EXPECT_TRUE(test::first_good(reason_comes_first, std::identity()));
}

TEST_F(TcpPeers, WhatARankSentBeforeItLeftArrivesThoughItIsHeardToLeaveFirst) {
  RawSocket says = impersonate(2);
  RawSocket sends(port());
  Handshake handshake = caller(2, 0, world_.key, HandshakeService::kData);
  sends.write(handshake.take_output());
  handshake.take(sends.read(kWelcomeBytes));
  says.write(test::make_frame(TcpFrameKind::kGoodbye, {}));
  EXPECT_TRUE(says.is_closed());
  sends.write(handshake.take_output());
  const TimePoint deadline = Clock::now() + seconds(10);
  std::deque<TcpNetwork::Data> data;
  while (data.empty() && Clock::now() < deadline) {
    EXPECT_FALSE(zero_->poll());
    data = zero_->take_data();
  }
  ASSERT_EQ(data.size(), 1u);
  EXPECT_EQ(data.front().peer, 2);
  EXPECT_TRUE(data.front().incoming && data.front().socket);
}

TEST_F(TcpPeers, ARankThatBreaksOffInsideAFrameIsLost) {
  RawSocket rank = impersonate(2);
  Bytes frame = test::make_frame(TcpFrameKind::kMessage, Bytes(100));
  frame.resize(50);
  rank.write(frame);
  rank.close();
  EXPECT_THAT(loss_of_rank_2(), HasSubstr("is gone"));
}

TEST_F(TcpPeers, ARankThatAnnouncesMoreThanAFrameMayHoldIsLost) {
  RawSocket rank = impersonate(2);
  rank.write(test::frame_header(TcpFrameKind::kMessage, 0xffffffff));
  EXPECT_THAT(loss_of_rank_2(), HasSubstr("frame too long"));
}

TEST_F(TcpPeers, ARankThatSendsNoFrameIsLost) {
  RawSocket rank = impersonate(2);
  rank.write(Bytes(64, std::byte{0x77}));
  EXPECT_THAT(loss_of_rank_2(), HasSubstr("unknown type of frame"));
  expect_the_job_goes_on();
}

TEST_F(TcpPeers, ARankThatReadsSlowlyHoldsNobodyUpAndLosesNothing) {
  RawSocket rank = impersonate(2);
  rank.write(test::make_frame(TcpFrameKind::kMessage, text_message("here")));
  EXPECT_EQ(next_message(*zero_).bytes, text_message("here"));
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  constexpr int kCount = 32;  // more than the system keeps for a socket
  const auto message = [](int number) {
    Bytes bytes(kBytes);
    std::memset(bytes.data(), number, kBytes);
    return bytes;
  };
  for (int i = 0; i < kCount; ++i) zero_->send(2, message(i));
  expect_the_job_goes_on();
  const Bytes heartbeat = test::make_frame(TcpFrameKind::kHeartbeat, {});
  const Bytes header = test::frame_header(TcpFrameKind::kMessage, kBytes);
  for (int i = 0; i < kCount; ++i) {
    Bytes begin;
    do {  // between two messages, where the system had taken all there was
      begin = rank.read(header.size());
    } while (begin == heartbeat);
    ASSERT_EQ(begin, header) << "message " << i;
    ASSERT_TRUE(rank.read(kBytes) == message(i)) << "message " << i;
  }
}

// A loader's worker process, say, outlives the rank that forked it.
TEST(TcpDescriptors, AChildOfARankThatDiedDoesNotKeepItsConnectionOpen) {
  ListeningRanks world(3);
  const pid_t rank = fork();  // while there is one thread
  if (rank == 0) {
    setpgid(0, 0);
    TcpDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(test::loopback_port(world.endpoints[0]));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) _exit(1);
    Handshake handshake = caller(2, 0, world.key);
    const auto say = [&socket](const Bytes& bytes) {
      static_cast<void>(!write(socket.get(), bytes.data(), bytes.size()));
    };
    say(handshake.take_output());
    Bytes welcome(kWelcomeBytes);
    static_cast<void>(!recv(socket.get(), welcome.data(), welcome.size(), MSG_WAITALL));
    handshake.take(welcome);
    say(handshake.take_output());
    const pid_t worker = fork();
    if (worker == 0) {
      sleep(20);
      _exit(0);
    }
    raise(SIGKILL);
  }
  const auto zero = world.plane(0);
  const TimePoint start = Clock::now();
  EXPECT_THROW(next_message(*zero), LostRankError);
  EXPECT_LT(Clock::now() - start, seconds(15));
  waitpid(rank, nullptr, 0);
  kill(-rank, SIGKILL);  // its worker
}

// Its host's kernel goes on acknowledging.
TEST(TcpHeartbeats, ARankThatIsStoppedIsLost) {
  ListeningRanks world(2);
  const auto zero = world.plane(0, milliseconds(500));
  RawSocket silent = test::impersonate(1, 0, world.endpoints[0], world.key);
  const TimePoint start = Clock::now();
  try {
    next_message(*zero);
    ADD_FAILURE() << "a message instead of a loss";
  } catch (const LostRankError& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_THAT(error.what(), HasSubstr("rank 1 on host node1 does not answer: nothing has come"));
  }
  EXPECT_GE(Clock::now() - start, milliseconds(400));
}

TEST(TcpHeartbeats, KeepRanksThatPollNothing) {
  ListeningRanks world(2);
  const auto zero = world.plane(0, milliseconds(1000));
  const auto one = world.plane(1, milliseconds(1000));
  zero->send(1, text_message("before"));
  EXPECT_EQ(next_message(*one).bytes, text_message("before"));
  zero->prepare_sleep();
  one->prepare_sleep();
  std::this_thread::sleep_for(seconds(3));
  EXPECT_FALSE(zero->poll().has_value());
  one->send(0, text_message("after"));
  EXPECT_EQ(next_message(*zero).bytes, text_message("after"));
}

// Another process took the port of a rank that is gone, or an address leads elsewhere: it is told
// nothing by which it could be that rank.
TEST(TcpListeners, WhoDoesNotKnowTheKeyIsNotTakenForARank) {
  ListeningRanks world(2);
  ListeningRanks other(2);
  const auto elsewhere = other.plane(1);
  world.endpoints[1] = other.endpoints[1];
  const auto error_within = [&](Duration link_timeout) -> std::string {
    TcpControlPlane zero(test::one_a_host(0, 2), listen_on_interfaces(""), world.endpoints,
                         world.key, link_timeout);
    zero.send(1, text_message("secret"));
    try {
      next_message(zero);
    } catch (const LostRankError& error) {
      return error.what();
    }
    return "a message";
  };
  const auto answered = HasSubstr("does not know the key of this job");
  EXPECT_THAT(test::first_good_within(
                  milliseconds(500), error_within,
                  [&](const std::string& error) { return testing::Value(error, answered); }),
              answered);
  EXPECT_FALSE(elsewhere->poll().has_value());
}

// Every address of every interface but the one that was chosen.
TEST(TcpListeners, OfAChosenInterfaceIsAtNoOtherAddress) {
  const auto listeners = listen_on_interfaces("lo");
  ASSERT_FALSE(listeners.empty());
  for (const TcpListener& listener : listeners) {
    sockaddr_storage name{};
    socklen_t length = sizeof name;
    ASSERT_EQ(getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&name), &length), 0);
    if (name.ss_family == AF_INET) {
      const auto& v4 = reinterpret_cast<const sockaddr_in&>(name);
      EXPECT_EQ(ntohl(v4.sin_addr.s_addr) >> 24, 127u);
    } else {
      const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name);
      EXPECT_TRUE(IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr));
    }
  }
  // 127.0.0.2 is this machine too, and was what INADDR_ANY took.
  sockaddr_in other{};
  other.sin_family = AF_INET;
  other.sin_addr.s_addr = htonl(0x7f000002);
  other.sin_port = htons(test::loopback_port(endpoint_of(listeners, "")));
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_NE(connect(socket.get(), reinterpret_cast<sockaddr*>(&other), sizeof other), 0);
}

TEST(TcpListeners, OfNoChosenInterfaceIsWhereItSays) {
  const auto listeners = listen_on_interfaces("");
  for (const TcpListener& listener : listeners) {
    EXPECT_NE(listener.at.port, 0);
    EXPECT_THAT(listener.at.host, testing::Not(testing::AnyOf("0.0.0.0", "::")));
  }
  EXPECT_NE(test::loopback_port(endpoint_of(listeners, "")), 0);
}

TEST(TcpListeners, AnAddressThatLeadsNowhereDoesNotHideTheNextOne) {
  ListeningRanks world(2);
  auto addresses = world.endpoints[1].addresses;
  addresses.insert(addresses.begin(), {{"not an address", 1}, {"240.0.0.1", 1}});
  world.endpoints[1].addresses = addresses;
  const auto zero = world.plane(0);
  const auto one = world.plane(1);
  zero->send(1, text_message("hello"));
  EXPECT_EQ(next_message(*one).bytes, text_message("hello"));
}

}  // namespace
}  // namespace hvd::engine
