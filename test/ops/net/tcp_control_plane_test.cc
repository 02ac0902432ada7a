#include "ops/net/tcp_control_plane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "test/ops/net/tcp_world.h"
#include "test/support/attempts.h"
#include "test/support/control_plane_contract.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::ListeningRanks;
using test::next_message;
using test::one_a_host;
using test::text_message;
using testing::AllOf;
using testing::HasSubstr;

class TcpControlPlaneContract
    : public testing::TestWithParam<std::tuple<int, test::ControlPlaneCase>> {};

TEST_P(TcpControlPlaneContract, Holds) {
  const auto& [size, contract] = GetParam();
  ListeningRanks world(size);
  std::vector<std::unique_ptr<ControlPlane>> planes;
  for (Rank rank = 0; rank < size; ++rank) planes.push_back(world.plane(rank));
  test::run_ranks(size, [&, size = size, &run = contract.run](Rank rank) {
    run(*planes[static_cast<std::size_t>(rank)], rank, size);
  });
  test::run_ranks(size, [&](Rank rank) { planes[static_cast<std::size_t>(rank)].reset(); });
}

std::string contract_name(const testing::TestParamInfo<TcpControlPlaneContract::ParamType>& info) {
  return std::get<1>(info.param).name + "_" + std::to_string(std::get<0>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, TcpControlPlaneContract,
                         testing::Combine(testing::Values(2, 3, 5),
                                          testing::ValuesIn(test::control_plane_contract())),
                         contract_name);

LostRankError loss_seen_by(ControlPlane& plane) {
  try {
    const Message message = next_message(plane);
    ADD_FAILURE() << "a message of " << message.bytes.size() << " bytes instead of a loss";
  } catch (const LostRankError& error) {
    return error;
  }
  return {-1, ""};
}

TEST(TcpControlPlane, ConnectWaitsForBothDirections) {
  ListeningRanks world(3);
  std::vector<std::unique_ptr<TcpControlPlane>> planes;
  for (Rank rank = 0; rank < 3; ++rank) planes.push_back(world.plane(rank));
  test::run_ranks(3, [&](Rank rank) {
    const std::vector<Rank> above = {0};
    const std::vector<Rank> below = {1, 2};
    TcpControlPlane& plane = *planes[static_cast<std::size_t>(rank)];
    const TimePoint deadline = Clock::now() + seconds(30);
    if (rank == 0) plane.connect({}, below, deadline);
    if (rank != 0) plane.connect(above, {}, deadline);
    EXPECT_FALSE(plane.poll().has_value());
  });
  planes[0]->send(2, text_message("down"));
  EXPECT_EQ(next_message(*planes[2]).bytes, text_message("down"));
}

// False if it may have given up, which it does after a second, before its messages were on their
// way.
bool leaves_in_time(std::unique_ptr<TcpControlPlane> plane) {
  const TimePoint start = Clock::now();
  plane.reset();
  return Clock::now() - start < milliseconds(900);
}

TEST(TcpControlPlane, ARankThatLeavesInOrderIsNotLostAndItsLastMessageArrives) {
  const auto last_message_arrives = [] {
    ListeningRanks world(2);
    const auto stays = world.plane(0);
    auto leaves = world.plane(1);
    leaves->send(0, text_message("a first one"));
    EXPECT_EQ(next_message(*stays).bytes, text_message("a first one"));
    const Bytes large(std::size_t{3} << 20, std::byte{7});
    leaves->send(0, large);
    leaves->send(0, text_message("bye"));
    if (!leaves_in_time(std::move(leaves))) return false;
    EXPECT_EQ(next_message(*stays).bytes, large);
    EXPECT_EQ(next_message(*stays).bytes, text_message("bye"));
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_FALSE(stays->poll().has_value());
    stays->send(1, text_message("too late"));  // vanishes
    EXPECT_FALSE(stays->poll().has_value());
    return true;
  };
  EXPECT_TRUE(test::first_good(last_message_arrives, std::identity()));
}

// The connection is still being made when the sender goes.
TEST(TcpControlPlane, AMessageToARankNeverSpokenToSurvivesItsSender) {
  const auto message_arrives = [] {
    ListeningRanks world(2);
    const auto stays = world.plane(0);
    auto leaves = world.plane(1);
    leaves->send(0, text_message("alarm"));
    if (!leaves_in_time(std::move(leaves))) return false;
    EXPECT_EQ(next_message(*stays).bytes, text_message("alarm"));
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(stays->poll().has_value());
    return true;
  };
  EXPECT_TRUE(test::first_good(message_arrives, std::identity()));
}

TEST(TcpControlPlane, ARankThatFailsIsLostWithItsReason) {
  ListeningRanks world(3);
  const auto zero = world.plane(0);
  const auto one = world.plane(1);
  const auto two = world.plane(2);
  zero->send(2, text_message("x"));
  one->send(2, text_message("y"));
  next_message(*two);
  next_message(*two);
  two->send(0, text_message("before"));
  two->abort({StatusCode::kInternal, "out of cheese"});
  EXPECT_EQ(next_message(*zero).bytes, text_message("before"));
  for (ControlPlane* plane :
       {static_cast<ControlPlane*>(zero.get()), static_cast<ControlPlane*>(one.get())}) {
    const LostRankError error = loss_seen_by(*plane);
    EXPECT_EQ(error.rank(), 2);
    EXPECT_STREQ(error.what(), "rank 2 on host node2 failed: out of cheese");
  }
  EXPECT_FALSE(zero->poll().has_value()) << "a loss is told once";
}

TEST(TcpControlPlane, AbortFromAnotherThreadWhileMessagesFlowIsALoss) {
  ListeningRanks world(2);
  const auto sends = world.plane(0);
  const auto sees = world.plane(1);
  std::atomic<bool> stop{false};
  std::jthread sender([&] {
    while (!stop) {
      sends->send(1, Bytes(1'000));
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(next_message(*sees).bytes.size(), 1'000u);
  std::jthread([&] { sends->abort({StatusCode::kInternal, "stuck"}); }).join();
  stop = true;
  EXPECT_THROW(while (next_message(*sees).bytes.size() == 1'000){}, LostRankError);
}

// Rank 0 connects to rank 1, whose answer has come and to whom the confirmation is still on its
// way.
class HalfConnected {
 public:
  HalfConnected() : relay_(listen_on("127.0.0.1")) {
    const std::uint16_t port = test::loopback_port(world_.endpoints[1]);
    one = world_.plane(1);
    world_.endpoints[1].addresses = {relay_.at};
    zero = world_.plane(0);
    zero->send(1, text_message("anybody?"));
    to_zero_.emplace(relay_);
    to_one_.emplace(port);
    to_one_->write(to_zero_->read(kHelloBytes));
    to_zero_->write(to_one_->read(kWelcomeBytes));
    confirmation_ = to_zero_->read(kConfirmBytes);
  }

  void deliver_confirmation() { to_one_->write(confirmation_); }
  // What rank 1 said, and that it is gone.
  void deliver_the_rest() {
    to_zero_->write(to_one_->read(1'000));
    to_zero_->close();
  }

 private:
  ListeningRanks world_{2};
  TcpListener relay_;
  std::optional<test::RawSocket> to_zero_;
  std::optional<test::RawSocket> to_one_;
  Bytes confirmation_;

 public:
  std::unique_ptr<TcpControlPlane> zero;
  std::unique_ptr<TcpControlPlane> one;
};

TEST(TcpControlPlane, ARankThatLeavesBeforeItIsToldWhoConnectsToItIsNotLost) {
  HalfConnected pair;
  pair.one.reset();
  pair.deliver_the_rest();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(pair.zero->poll().has_value());
}

TEST(TcpControlPlane, ARankThatFailsTellsItsReasonToWhoIsConnectingToIt) {
  const auto reason_told = [] {
    HalfConnected pair;
    pair.one->abort({StatusCode::kInternal, "out of cheese"});
    std::jthread leaves([&] { pair.one.reset(); });
    std::this_thread::sleep_for(milliseconds(20));
    pair.deliver_confirmation();
    pair.deliver_the_rest();
    return std::string(loss_seen_by(*pair.zero).what());
  };
  const std::string expected = "rank 1 on host node1 failed: out of cheese";
  EXPECT_EQ(test::first_good(reason_told, [&](const std::string& why) { return why == expected; }),
            expected);
}

// A port of 127.0.0.1 that refuses connections, for as long as it lives.
class ClosedPort {
 public:
  ClosedPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    name_.sin_family = AF_INET;
    name_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof name_;
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&name_), length), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&name_), &length), 0);
  }
  std::uint16_t number() const { return ntohs(name_.sin_port); }

 private:
  UniqueFd socket_;
  sockaddr_in name_{};
};

// What ranks 0, which sends a message to rank 2, and 1, which connects to it, end with.
std::vector<std::string> errors_of_talking_to(const ClosedPort& port, Duration limit) {
  ListeningRanks world(3);
  world.endpoints[2].addresses = {{"127.0.0.1", port.number()}};
  const auto zero = world.plane(0, limit);
  const auto one = world.plane(1);
  zero->send(2, text_message("anybody?"));
  const LostRankError error = loss_seen_by(*zero);
  EXPECT_EQ(error.rank(), 2);
  try {
    const std::vector<Rank> to = {2};
    one->connect(to, {}, Clock::now() + limit);
  } catch (const StalledError& stalled) {
    return {error.what(), stalled.what()};
  }
  return {error.what(), "connected to nobody"};
}

TEST(TcpControlPlane, ARankThatCannotBeReachedIsNamedWithItsAddressesAndWhatToDo) {
  const ClosedPort port;
  const auto expected = AllOf(
      HasSubstr("rank 2 on host node2"), HasSubstr("127.0.0.1:" + std::to_string(port.number())),
      HasSubstr("Connection refused"), HasSubstr("HOROVOD_GLOO_IFACE"),
      HasSubstr("--network-interfaces"), HasSubstr("HVD_ADVERTISE_ADDRESS"));
  const auto on_both =
      testing::ElementsAre(expected, AllOf(expected, HasSubstr("HOROVOD_START_TIMEOUT")));
  EXPECT_THAT(
      test::first_good_within(
          milliseconds(300), [&](Duration limit) { return errors_of_talking_to(port, limit); },
          [&](const auto& errors) { return testing::Value(errors, on_both); }),
      on_both);
}

TEST(TcpControlPlane, ARankThatDoesNotConnectIsNamedAtTheDeadline) {
  ListeningRanks world(2);
  const auto zero = world.plane(0);
  const std::vector<Rank> from = {1};
  try {
    zero->connect({}, from, Clock::now() + milliseconds(50));
    FAIL() << "nobody connected";
  } catch (const StalledError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 on host node1 has not connected"),
                                    HasSubstr("HOROVOD_START_TIMEOUT")));
  }
}

TEST(TcpControlPlane, RingsTheDoorbellThatItWasGiven) {
  ListeningRanks world(2);
  DoorbellState state;
  Doorbell bell(state);
  TcpControlPlane hears(one_a_host(0, 2), std::move(world.listeners[0]), world.endpoints, world.key,
                        test::kLinkTimeout, &state);
  const auto speaks = world.plane(1);
  const auto seen = bell.rings();
  speaks->send(0, text_message("x"));
  bell.wait_until(seen, Clock::now() + seconds(30));
  EXPECT_EQ(hears.poll().value().bytes, text_message("x"));
}

TEST(TcpControlPlane, SendingToNobodyOrToItselfIsABug) {
  ListeningRanks world(2);
  const auto plane = world.plane(0);
  for (const Rank wrong : {-1, 0, 2}) EXPECT_THROW(plane->send(wrong, {}), InternalError);
}

// Its thread watches whenever nobody else does.
TEST(TcpControlPlane, RingsWhoSleepsAndWhoHasNotPolledForAWhile) {
  test::ListeningRanks world(2);
  const auto zero = world.plane(0);
  const auto one = world.plane(1);
  for (int round = 0; round < 40; ++round) {
    EXPECT_FALSE(zero->poll().has_value());
    const auto seen = zero->doorbell().rings();
    EXPECT_FALSE(zero->poll().has_value());
    const bool sleeps = round % 2 == 0;
    EXPECT_FALSE(sleeps && zero->prepare_sleep().has_value());
    one->send(0, test::text_message("now"));
    zero->doorbell().wait_until(seen, Clock::now() + std::chrono::seconds(20));
    EXPECT_NE(zero->doorbell().rings(), seen) << "nobody rang";
    EXPECT_EQ(test::next_message(*zero).bytes, test::text_message("now"));
  }
}

}  // namespace
}  // namespace hvd::engine
