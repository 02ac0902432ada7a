// What a rank meets at its door that is no rank, or one that breaks off.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <csignal>
#include <deque>
#include <thread>

#include "test/ops/tcp/tcp_world.h"
#include "test/support/attempts.h"
#include "test/support/control_plane_contract.h"

namespace hvd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::impersonate;
using test::next_message;
using test::RawSocket;
using test::TcpDoors;
using test::text_message;
using testing::HasSubstr;

// A door at rank 0 of three ranks; rank 1 is real, rank 2 is what a test makes of it.
class TcpStrangers : public testing::Test {
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

  const TcpEndpoint& door() const { return world_.endpoints[0]; }

  TcpDoors world_{3};
  std::unique_ptr<TcpControlPlane> zero_ = world_.plane(0);
  std::unique_ptr<TcpControlPlane> one_ = world_.plane(1);
};

TEST_F(TcpStrangers, AreRefusedWithoutTheKey) {
  TcpSecret guess = door().knock;
  guess.back() ^= std::byte{1};
  RawSocket raw(door().port);
  raw.write(encode_hello({guess, 2, 0}));
  EXPECT_TRUE(raw.is_closed());
  expect_the_job_goes_on();
}

TEST_F(TcpStrangers, AreRefusedWithAKeyButNoSuchRank) {
  for (const TcpHello& hello : {TcpHello{door().knock, 3, 0}, TcpHello{door().knock, -1, 0},
                                TcpHello{door().knock, 0, 0}, TcpHello{door().knock, 2, 1}}) {
    RawSocket raw(door().port);
    raw.write(encode_hello(hello));
    EXPECT_TRUE(raw.is_closed()) << hello.from << " to " << hello.to;
  }
  expect_the_job_goes_on();
}

TEST_F(TcpStrangers, AreRefusedWhenTheySpeakSomethingElse) {
  RawSocket http(door().port);
  http.write(text_message("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
  EXPECT_TRUE(http.is_closed());
  RawSocket short_one(door().port);
  short_one.write(Bytes(kHelloBytes, std::byte{0x5a}));
  EXPECT_TRUE(short_one.is_closed());
  RawSocket long_one(door().port);
  long_one.write(Bytes(100'000, std::byte{0x5a}));
  EXPECT_TRUE(long_one.is_closed());
  expect_the_job_goes_on();
}

TEST_F(TcpStrangers, ThatSayNothingKeepNobodyOut) {
  std::deque<RawSocket> silent;
  for (std::size_t i = 0; i < 3 * TcpNetwork::kMostStrangers; ++i) silent.emplace_back(door().port);
  expect_the_job_goes_on();
  EXPECT_TRUE(silent.front().is_closed()) << "the oldest ones make room";
}

TEST_F(TcpStrangers, HaveALimitedTimeToSayTheirName) {
  RawSocket silent(door().port);
  RawSocket half(door().port);
  Bytes hello = encode_hello({door().knock, 2, 0});
  hello.resize(20);
  half.write(hello);
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(half.is_closed());
  expect_the_job_goes_on();
}

TEST_F(TcpStrangers, BecomeNoRankBeforeTheyConfirm) {
  RawSocket raw(door().port);
  raw.write(encode_hello({door().knock, 2, 0}));
  EXPECT_EQ(raw.read(kWelcomeBytes).size(), kWelcomeBytes);
  raw.close();
  RawSocket wrong(door().port);
  wrong.write(encode_hello({door().knock, 2, 0}));
  EXPECT_EQ(wrong.read(kWelcomeBytes).size(), kWelcomeBytes);
  wrong.write(make_frame(TcpFrameKind::kMessage, text_message("x")));
  EXPECT_TRUE(wrong.is_closed());
  RawSocket rank = impersonate(2, 0, door());
  rank.write(make_frame(TcpFrameKind::kMessage, text_message("now")));
  EXPECT_EQ(next_message(*zero_).bytes, text_message("now"));
}

TEST_F(TcpStrangers, ThatClaimAConnectedOrLostRankAreRefused) {
  RawSocket rank = impersonate(2, 0, door());
  rank.write(make_frame(TcpFrameKind::kMessage, text_message("here")));
  EXPECT_EQ(next_message(*zero_).bytes, text_message("here"));
  EXPECT_TRUE(impersonate(2, 0, door()).is_closed());
  rank.close();
  EXPECT_THAT(loss_of_rank_2(), HasSubstr("closed without a goodbye"));
  EXPECT_TRUE(impersonate(2, 0, door()).is_closed());
  EXPECT_FALSE(zero_->poll().has_value());
}

TEST_F(TcpStrangers, ARankWhoseSocketClosesIsLostByNameAfterItsLastMessage) {
  RawSocket rank = impersonate(2, 0, door());
  rank.write(make_frame(TcpFrameKind::kMessage, text_message("last words")));
  rank.close();
  EXPECT_EQ(next_message(*zero_).bytes, text_message("last words"));
  EXPECT_EQ(loss_of_rank_2(),
            "rank 2 on host node2 is gone: its connection closed without a goodbye");
  expect_the_job_goes_on();
}

TEST_F(TcpStrangers, ARankThatBreaksOffInsideAFrameIsLost) {
  RawSocket rank = impersonate(2, 0, door());
  Bytes frame = make_frame(TcpFrameKind::kMessage, Bytes(100));
  frame.resize(50);
  rank.write(frame);
  rank.close();
  EXPECT_THAT(loss_of_rank_2(), HasSubstr("is gone"));
}

TEST_F(TcpStrangers, ARankThatAnnouncesMoreThanAFrameMayHoldIsLost) {
  RawSocket rank = impersonate(2, 0, door());
  Bytes header;
  ByteWriter out(header);
  out.put(TcpFrameKind::kMessage);
  out.put(std::uint32_t{0xffffffff});
  rank.write(header);
  EXPECT_THAT(loss_of_rank_2(), HasSubstr("frame too long"));
}

TEST_F(TcpStrangers, ARankThatSendsNoFrameIsLost) {
  RawSocket rank = impersonate(2, 0, door());
  rank.write(Bytes(64, std::byte{0x77}));
  EXPECT_THAT(loss_of_rank_2(), HasSubstr("unknown kind of frame"));
  expect_the_job_goes_on();
}

TEST_F(TcpStrangers, ARankThatReadsSlowlyHoldsNobodyUpAndLosesNothing) {
  RawSocket rank = impersonate(2, 0, door());
  rank.write(make_frame(TcpFrameKind::kMessage, text_message("here")));
  EXPECT_EQ(next_message(*zero_).bytes, text_message("here"));
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  constexpr int kCount = 32;  // more than the system keeps for a socket
  for (int i = 0; i < kCount; ++i) zero_->send(2, Bytes(kBytes, static_cast<std::byte>(i)));
  expect_the_job_goes_on();
  for (int i = 0; i < kCount; ++i) {
    const Bytes expected =
        make_frame(TcpFrameKind::kMessage, Bytes(kBytes, static_cast<std::byte>(i)));
    ASSERT_TRUE(rank.read(expected.size()) == expected) << "message " << i;
  }
}

// A loader's worker process, say, outlives the rank that forked it.
TEST(TcpDescriptors, AChildOfARankThatDiedDoesNotKeepItsConnectionOpen) {
  TcpDoors world(3);
  const pid_t rank = fork();  // while there is one thread
  if (rank == 0) {
    setpgid(0, 0);
    TcpDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(world.endpoints[0].port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) _exit(1);
    const Bytes hello = encode_hello({world.endpoints[0].knock, 2, 0});
    std::byte welcome[kWelcomeBytes];
    static_cast<void>(!write(socket.get(), hello.data(), hello.size()));
    static_cast<void>(!recv(socket.get(), welcome, sizeof welcome, MSG_WAITALL));
    const Bytes confirm = make_frame(TcpFrameKind::kConfirm, {});
    static_cast<void>(!write(socket.get(), confirm.data(), confirm.size()));
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

// Another process took the port of a rank that is gone, or an address leads elsewhere.
TEST(TcpDoor, WhatDoesNotKnowTheAnswerIsNotTakenForARank) {
  TcpDoors world(2);
  TcpDoors other(2);
  const auto elsewhere = other.plane(1);
  world.endpoints[1].port = other.endpoints[1].port;
  const auto zero = world.plane(0, milliseconds(500));
  zero->send(1, text_message("secret"));
  EXPECT_THROW(next_message(*zero), LostRankError);
  EXPECT_FALSE(elsewhere->poll().has_value());
  world.endpoints[1].knock = other.endpoints[1].knock;
  const auto error_within = [&](Duration link_timeout) -> std::string {
    TcpControlPlane knows(test::one_a_host(0, 2), open_door(""), world.endpoints, nullptr,
                          link_timeout);
    knows.send(1, text_message("secret"));
    try {
      next_message(knows);
    } catch (const LostRankError& error) {
      return error.what();
    }
    return "a message";
  };
  const auto answered = HasSubstr("something else answers there");
  EXPECT_THAT(test::first_good_within(
                  milliseconds(500), error_within,
                  [&](const std::string& error) { return testing::Value(error, answered); }),
              answered);
  EXPECT_FALSE(elsewhere->poll().has_value());
}

TEST(TcpDoor, AnAddressThatLeadsNowhereDoesNotHideTheNextOne) {
  TcpDoors world(2);
  auto addresses = world.endpoints[1].addresses;
  addresses.insert(addresses.begin(), {"not an address", "240.0.0.1"});
  world.endpoints[1].addresses = addresses;
  const auto zero = world.plane(0);
  const auto one = world.plane(1);
  zero->send(1, text_message("hello"));
  EXPECT_EQ(next_message(*one).bytes, text_message("hello"));
}

}  // namespace
}  // namespace hvd
