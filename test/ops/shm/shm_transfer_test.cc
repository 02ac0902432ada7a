// Sends and receives that are given up: at every stage, in one thread, so that each is in the stage
// that is meant.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "test/ops/shm/shm_ranks.h"
#include "test/support/fence_gate.h"

namespace hvd::engine::test {
namespace {

constexpr int kTag = 7;

class Array {
 public:
  Array(std::size_t numel, float value) : values_(numel, value) {}
  TensorView view() {
    return {values_.data(), static_cast<std::int64_t>(values_.size()), DType::kF32, {}};
  }
  bool is(float value) const {
    return std::all_of(values_.begin(), values_.end(), [&](float each) { return each == value; });
  }

 private:
  std::vector<float> values_;
};

// Of as many elements: few, and more than the rings hold.
class ShmTransfers : public testing::TestWithParam<std::size_t> {
 protected:
  Array array(float value) const { return {GetParam(), value}; }
  std::unique_ptr<Operation> send(Array& from) { return ranks_[0].send(from.view(), 1, kTag); }
  std::unique_ptr<Operation> receive(Array& to) { return ranks_[1].receive(to.view(), 0, kTag); }

  void progress() {
    for (const Rank rank : {0, 1}) ranks_[rank].progress(Clock::now());
  }

  // Both ends; what is left of others goes its way meanwhile.
  void finish(Operation& sending, Operation& receiving) {
    const TimePoint deadline = Clock::now() + std::chrono::seconds(60);
    while (!sending.advance() || !receiving.advance()) {
      receiving.advance();
      progress();
      ASSERT_LT(Clock::now(), deadline) << "a transfer does not end";
    }
  }

  void expect_next_is_served(float value) {
    Array from = array(value), to = array(0);
    const auto sending = send(from);
    const auto receiving = receive(to);
    ASSERT_NO_FATAL_FAILURE(finish(*sending, *receiving));
    EXPECT_TRUE(to.is(value));
  }

  // And collectives.
  void expect_all_is_well() {
    for (const float value : {101.F, 102.F, 103.F}) expect_next_is_served(value);
    Array sums[] = {array(1), array(2)};
    std::vector<Slice> slices;
    for (Array& each : sums) slices.push_back({each.view(), each.view()});
    const auto first = ranks_[0].all_reduce({&slices[0], 1}, {});
    const auto second = ranks_[1].all_reduce({&slices[1], 1}, {});
    const TimePoint deadline = Clock::now() + std::chrono::seconds(60);
    while (!first->advance() || !second->advance()) {
      second->advance();
      ASSERT_LT(Clock::now(), deadline) << "a collective does not end";
    }
    EXPECT_TRUE(sums[0].is(3) && sums[1].is(3));
  }

  static void expect_given_up(Operation& operation) {
    try {
      for (int i = 0; i < 1000; ++i) {
        ASSERT_FALSE(operation.advance()) << "a receive without its data";
      }
      FAIL() << "a receive that was given up by its sender waits";
    } catch (const StalledError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank 0 gave up its send to rank 1 with tag 7"), std::string::npos)
          << text;
    }
  }

  ShmRanks ranks_{2};
};

class LongShmTransfers : public ShmTransfers {};

INSTANTIATE_TEST_SUITE_P(Sizes, LongShmTransfers, testing::Values(1'000'000),
                         [](const auto& tested) { return std::to_string(tested.param); });
INSTANTIATE_TEST_SUITE_P(Sizes, ShmTransfers, testing::Values(3, 1'000'000),
                         [](const auto& tested) { return std::to_string(tested.param); });

TEST_P(ShmTransfers, AnOfferWithoutAnAnswerIsTakenBack) {
  Array stale = array(1);
  auto sending = send(stale);
  EXPECT_FALSE(sending->advance());
  EXPECT_TRUE(sending->withdraw());
  sending.reset();
  Array to = array(0), from = array(2);
  const auto receiving = receive(to);
  EXPECT_FALSE(receiving->advance());
  const auto next = send(from);
  ASSERT_NO_FATAL_FAILURE(finish(*next, *receiving));
  EXPECT_TRUE(to.is(2)) << "what was given up arrived";
  expect_all_is_well();
}

TEST_P(ShmTransfers, AReceiveWithoutAnOfferGoes) {
  Array to = array(0);
  auto receiving = receive(to);
  EXPECT_FALSE(receiving->advance());
  EXPECT_TRUE(receiving->withdraw());
  receiving.reset();
  expect_all_is_well();
  EXPECT_TRUE(to.is(0));
}

TEST_P(ShmTransfers, AReceiveWhoseSendIsGivenUpAfterItsAnswerMeetsTheNextOne) {
  // Nor is a send that is given up a mismatch when it has another number of elements.
  for (const std::size_t numel : {GetParam(), GetParam() + 1}) {
    Array stale{numel, 1}, from = array(2), to = array(0);
    auto sending = send(stale);
    const auto receiving = receive(to);
    EXPECT_FALSE(sending->advance());    // offers
    EXPECT_FALSE(receiving->advance());  // answers
    EXPECT_TRUE(sending->withdraw());
    sending.reset();
    const auto next = send(from);
    ASSERT_NO_FATAL_FAILURE(finish(*next, *receiving));
    EXPECT_TRUE(to.is(2)) << numel;
    expect_all_is_well();
  }
}

TEST_P(LongShmTransfers, AReceiveWhoseSendIsGivenUpHalfWayMeetsTheNextOne) {
  Array stale = array(1), from = array(2), to = array(0);
  auto sending = send(stale);
  const auto receiving = receive(to);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(sending->advance());
    EXPECT_FALSE(receiving->advance());
  }
  EXPECT_FALSE(to.is(0)) << "nothing moved";
  EXPECT_TRUE(sending->withdraw());
  sending.reset();
  const auto next = send(from);
  ASSERT_NO_FATAL_FAILURE(finish(*next, *receiving));
  EXPECT_TRUE(to.is(2));
  expect_all_is_well();
}

// Messages would change their order.
TEST_P(LongShmTransfers, AReceiveWhoseSendIsGivenUpFailsAloneIfALaterOneHasMetItsSend) {
  Array from = array(1), to = array(0), next_from = array(5), next_to = array(0);
  auto sending = send(from);
  auto receiving = receive(to);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(sending->advance());
    EXPECT_FALSE(receiving->advance());
  }
  EXPECT_FALSE(to.is(0)) << "nothing moved";
  // One that has met its other end behind it.
  const auto behind = send(next_from);
  const auto received_behind = receive(next_to);
  behind->advance();
  received_behind->advance();
  EXPECT_TRUE(sending->withdraw());
  sending.reset();
  expect_given_up(*receiving);
  EXPECT_TRUE(receiving->withdraw());
  receiving.reset();
  ASSERT_NO_FATAL_FAILURE(finish(*behind, *received_behind));
  EXPECT_TRUE(next_to.is(5));
  expect_all_is_well();
}

TEST_P(LongShmTransfers, AReceiveThatIsGivenUpHalfWayDropsTheRest) {
  Array from = array(1), to = array(0);
  const auto sending = send(from);
  auto receiving = receive(to);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(sending->advance());
    EXPECT_FALSE(receiving->advance());
  }
  EXPECT_TRUE(receiving->withdraw());
  receiving.reset();
  const TimePoint deadline = Clock::now() + std::chrono::seconds(60);
  while (!sending->advance()) {
    progress();
    ASSERT_LT(Clock::now(), deadline) << "nobody takes the rest";
  }
  expect_all_is_well();
}

// A receive that has met its offer and waits for a device.
TEST_P(ShmTransfers, AReceiveThatIsNotReadyGivesItsOfferBack) {
  const auto gate = std::make_shared<FenceGate>();
  Array from = array(1), never = array(0), to = array(0);
  const auto sending = send(from);
  EXPECT_FALSE(sending->advance());
  ranks_[1].after(Fence(gate));
  auto waits = receive(never);
  EXPECT_FALSE(waits->advance());
  EXPECT_TRUE(waits->withdraw());
  waits.reset();
  gate->open = true;
  const auto receiving = receive(to);
  ASSERT_NO_FATAL_FAILURE(finish(*sending, *receiving));
  EXPECT_TRUE(to.is(1) && never.is(0));
  expect_all_is_well();
}

TEST_P(ShmTransfers, AReceiveThatIsNotReadyLosesAnOfferThatIsTakenBack) {
  const auto gate = std::make_shared<FenceGate>();
  Array stale = array(1), from = array(2), to = array(0);
  auto sending = send(stale);
  EXPECT_FALSE(sending->advance());
  ranks_[1].after(Fence(gate));
  const auto receiving = receive(to);
  EXPECT_FALSE(receiving->advance());
  EXPECT_TRUE(sending->withdraw());
  sending.reset();
  EXPECT_FALSE(receiving->advance());  // hears of it
  gate->open = true;
  const auto next = send(from);
  ASSERT_NO_FATAL_FAILURE(finish(*next, *receiving));
  EXPECT_TRUE(to.is(2));
  expect_all_is_well();
}

}  // namespace
}  // namespace hvd::engine::test
