// What the survivors see when a rank dies, hangs, or a port breaks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/runtime/coordinator.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/core/runtime/gated_control_plane.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/attempts.h"
#include "test/support/message_of.h"
#include "test/support/run_ranks.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::allgather;
using test::allreduce;
using test::run_ranks;
using test::shared;
using test::SimRanks;

constexpr SimOptions kAsync = {.asynchronous = true, .device = DeviceKind::kCuda};

class Failure : public testing::TestWithParam<std::tuple<SimOptions, int>> {
 protected:
  const SimOptions& options() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()); }
  Submission sum(const std::string& name) const {
    return allreduce(name, shared<float>({1}), ReduceOp::kSum, options().device);
  }
};

INSTANTIATE_TEST_SUITE_P(All, Failure,
                         testing::Combine(testing::Values(SimOptions{}, kAsync,
                                                          SimOptions{.ranks_per_host = 2}),
                                          testing::Values(2, 4, 7)),
                         [](const auto& tested) {
                           const SimOptions& options = std::get<0>(tested.param);
                           const std::string name = options.asynchronous          ? "Async"
                                                    : options.ranks_per_host != 0 ? "TwoAHost"
                                                                                  : "Sync";
                           return name + std::to_string(std::get<1>(tested.param));
                         });

// Runs `calls`, which must throw PeerLostError naming the rank.
template <typename Calls>
void expect_lost(Rank lost, Rank here, Calls calls) {
  const std::string name = "rank " + std::to_string(lost);
  EXPECT_THAT(message_of<PeerLostError>([&] { calls(); }), testing::HasSubstr(name))
      << "at rank " << here;
}

TEST_P(Failure, EverySurvivorLearnsWhoDied) {
  for (Rank victim = 0; victim < size(); ++victim) {
    SimRanks ranks(size(), options());
    const TimePoint start = Clock::now();
    run_ranks(size(), [&](Rank rank) {
      if (rank == victim) {
        ranks[rank].submit(sum("before")).wait();
        ranks.world.kill(victim);
        return;
      }
      Handle handle;
      expect_lost(victim, rank, [&] {
        handle = ranks[rank].submit(sum("before"));
        handle.wait();
        handle = ranks[rank].submit(sum("after"));
        handle.wait();
      });
      EXPECT_EQ(ranks[rank].stopped().code(), StatusCode::kTransport);
      expect_lost(victim, rank, [&] { ranks[rank].submit(sum("later")); });
    });
    EXPECT_LT(Clock::now() - start, seconds(30)) << "rank " << victim << " of " << size();
  }
}

// The others have started an operation that will never be complete.
TEST_P(Failure, ADeathInTheMiddleOfABatchEndsIt) {
  const Rank victim = size() - 1;
  SimRanks ranks(size(), options());
  std::vector<Handle> handles;
  for (Rank rank = 0; rank < size(); ++rank) {
    for (int i = 0; i < 20; ++i) {
      handles.push_back(ranks[rank].submit(sum("gradient." + std::to_string(i))));
    }
  }
  ranks.world.kill(victim);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    try {
      handles[i].wait();  // either it was finished before, or
    } catch (const PeerLostError&) {
    }
  }
  for (Rank rank = 0; rank < victim; ++rank) {
    EXPECT_THROW(ranks[rank].submit(sum("later")).wait(), PeerLostError);
  }
}

// What ranks 0 and 2 are told, who wait for rank 1.
std::vector<std::string> errors_of_a_stall() {
  Config config;
  config.stall_warning = milliseconds(50);
  config.stall_limit = Duration::zero();
  SimRanks ranks(3, {}, config);
  std::vector<Handle> handles;
  for (const Rank rank : {0, 2}) {
    handles.push_back(ranks[rank].submit(allreduce("lonely", shared<float>({1}))));
  }
  ranks[0].coordinator().change_settings(
      [](NegotiationSettings& settings) { settings.stall_limit = milliseconds(150); });
  std::vector<std::string> errors;
  for (const Handle& handle : handles) {
    try {
      handle.wait();
      ADD_FAILURE() << "rank 1 never submitted";
    } catch (const StalledError& error) {
      errors.emplace_back(error.what());
    }
  }
  const TimePoint deadline = Clock::now() + seconds(30);
  while (ranks[1].stopped().ok() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));  // the others told it, and it may be slower
  }
  EXPECT_EQ(ranks[1].stopped().code(), StatusCode::kStalled);
  return errors;
}

TEST(Stall, IsGivenUpAtTheLimitNamingTensorAndRank) {
  const auto all_name_it = [](const std::vector<std::string>& errors) {
    return std::ranges::all_of(errors, [](const std::string& error) {
      return error.find("lonely") != std::string::npos && error.find("rank 1") != std::string::npos;
    });
  };
  // Rank 2 gives up a rank 0 that is held up at that moment.
  const std::vector<std::string> errors = test::first_good(errors_of_a_stall, all_name_it);
  EXPECT_TRUE(all_name_it(errors)) << testing::PrintToString(errors);
}

TEST(Settings, OfRank0ChangeForAllRanks) {
  SimRanks ranks(2);
  EXPECT_THROW(ranks[1].coordinator().change_settings([](NegotiationSettings&) {}),
               InvalidArgumentError);
  ranks[0].coordinator().change_settings([](NegotiationSettings& settings) {
    settings.stall_warning = milliseconds(20);
    settings.stall_limit = milliseconds(80);
  });
  testing::internal::CaptureStderr();
  EXPECT_THROW(ranks[1].submit(allreduce("lonely", shared<float>({1}))).wait(), StalledError);
  testing::internal::GetCapturedStderr();
}

TEST(Stall, BlamesNobodyWhoWaitsForRank0WhileThatIsExpected) {
  Config config;
  config.stall_warning = milliseconds(20);
  config.stall_limit = Duration::zero();
  std::atomic<bool> blamed = false;
  SimRanks ranks(2, {}, config);
  ranks[0].notifier().on_stall([&](const std::string&) { blamed = true; });
  ranks[0].coordinator().expect_wait_for_root(seconds(30));
  const Handle waiting = ranks[1].submit(allreduce("x", shared<float>({1})));
  EXPECT_FALSE(waiting.wait_for(milliseconds(300)));
  EXPECT_FALSE(blamed);
  ranks[0].submit(allreduce("x", shared<float>({1}))).wait();
  waiting.wait();
}

TEST(Stall, ASilentRankThatComesBackLosesNothing) {
  SimRanks ranks(3);
  ranks.world.silence(1);
  std::vector<Handle> handles;
  const auto values = shared<float>({1});
  for (Rank rank = 0; rank < 3; ++rank) {
    handles.push_back(ranks[rank].submit(allreduce("x", rank == 0 ? values : shared<float>({1}))));
  }
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_FALSE(handles[0].done());
  ranks.world.resume(1);
  for (const Handle& handle : handles) handle.wait();
  EXPECT_EQ(values->front(), 3);
}

// The first all-reduce ends and the second one fails in the same look of the executor.
class OneEndsAndOneFails final : public test::ForwardingCollective {
 public:
  struct Gate {
    std::atomic<int> started = 0;
    std::atomic<bool> open = false;
    std::atomic<bool> one_has_ended = false;
  };
  OneEndsAndOneFails(std::unique_ptr<Collective> inner, Gate& gate)
      : ForwardingCollective(std::move(inner)), gate_(gate) {}

  std::unique_ptr<Operation> all_reduce(std::span<const Slice>, const Reduction&) override {
    ++gate_.started;
    return std::make_unique<Gated>(gate_, calls_++ > 0);
  }

 private:
  class Gated final : public Operation {
   public:
    Gated(Gate& gate, bool fails) : gate_(gate), fails_(fails) {}
    bool advance() override {
      if (!gate_.open) return false;
      if (fails_ && !gate_.one_has_ended) return false;  // it opened after the look at the first
      if (fails_) throw InternalError("the second one is broken");
      gate_.one_has_ended = true;
      return true;
    }

   private:
    Gate& gate_;
    const bool fails_;
  };

  Gate& gate_;
  int calls_ = 0;
};

TEST(FailureOfOneRank, ABatchThatEndsBesideOneThatFailsIsOver) {
  OneEndsAndOneFails::Gate gate;
  SimRanks ranks(2, {}, {}, [&](Rank rank, std::unique_ptr<Collective> inner) {
    if (rank == 1) return inner;
    return std::unique_ptr<Collective>(
        std::make_unique<OneEndsAndOneFails>(std::move(inner), gate));
  });
  const auto until_started = [&](int count) {
    while (gate.started < count) std::this_thread::sleep_for(milliseconds(1));
  };
  std::vector<Handle> ends, fails;
  for (Rank rank : {0, 1}) ends.push_back(ranks[rank].submit(allreduce("a", shared<float>({1}))));
  until_started(1);
  for (Rank rank : {0, 1}) fails.push_back(ranks[rank].submit(allreduce("b", shared<float>({1}))));
  until_started(2);
  gate.open = true;
  EXPECT_NO_THROW(ends[0].wait());
  for (const Handle& handle : fails) EXPECT_THROW(handle.wait(), Error);
}

TEST(FailureOfOneRank, CountsThatLieStopEveryRankBeforeAnythingIsAllocated) {
  const std::vector<std::function<Submission(Rank)>> calls = {
      [](Rank) { return allgather("lie", shared<float>({1}), 1); },
      [](Rank) { return test::gather("lie", shared<float>({1}), 1, 0); },
      [](Rank) {
        return test::alltoall("lie", shared<float>({1, 2, 3}), 1, {1, 1, 1});
      },
      [](Rank rank) {
        return rank == 1 ? test::scatter("lie", shared<float>({1, 2, 3}), 1, 1, {1, 1, 1})
                         : test::scatter("lie", shared<float>({}), 1, 1, {});
      }};
  for (const auto& call : calls) {
    SimRanks ranks(3, {}, {}, [](Rank rank, std::unique_ptr<Collective> inner) {
      if (rank != 1) return inner;
      return std::unique_ptr<Collective>(std::make_unique<test::LyingCollective>(std::move(inner)));
    });
    run_ranks(3, [&](Rank rank) {
      EXPECT_THAT(message_of<InternalError>([&] { ranks[rank].submit(call(rank)).wait(); }),
                  testing::HasSubstr("'lie': rank 1 announced -5 rows"));
    });
  }
}

// Rank 0 is stopped in a debugger, say.
TEST(FailureOfOneRank, AnAnswerToItsGoodbyeIsWaitedForAsLongAsTheSettingSays) {
  SimWorld world(2);
  Config config;
  config.shutdown_timeout = milliseconds(50);
  std::vector<std::unique_ptr<Collective>> collectives;
  collectives.push_back(world.collective(1));
  Runtime alone(world.control_plane(1), std::move(collectives), config);
  const Handle handle = alone.submit(allreduce("x", shared<float>({1})));
  alone.shutdown();
  const std::string why = alone.stopped().message();
  EXPECT_NE(why.find("no answer from the others within 0.05 s (HVD_SHUTDOWN_TIMEOUT_SECONDS)"),
            std::string::npos)
      << why;
  EXPECT_THROW(handle.wait(), AbortedError);
}

// The coordinator of rank 0 hangs inside a port, as inside a broken MPI.
TEST(FailureOfOneRank, ACoordinatorThatIsStuckInAPortIsAbandoned) {
  SimWorld world(2);
  const auto gate = std::make_shared<test::Gate>();
  std::vector<std::unique_ptr<Collective>> collectives;
  collectives.push_back(world.collective(0));
  auto stuck = std::make_unique<Runtime>(
      std::make_unique<test::GatedControlPlane>(world.control_plane(0), gate),
      std::move(collectives), Config{});
  const Handle handle = stuck->submit(allreduce("x", shared<float>({1})));
  gate->close();
  world.control_plane(0)->doorbell().ring();
  gate->wait_for_visitor();
  const TimePoint start = Clock::now();
  stuck->shutdown();
  EXPECT_LT(Clock::now() - start,
            longest_shutdown(Config{}.shutdown_timeout, Config{}.stall_limit));
  EXPECT_THROW(handle.wait(), AbortedError);
  EXPECT_THROW(stuck->submit(allreduce("y", shared<float>({1}))), AbortedError);
  EXPECT_THROW(world.control_plane(1)->poll(), LostRankError);
  stuck.reset();
  gate->open();
  gate->wait_until_destroyed();  // the coordinator came back and cleaned up behind itself
}

}  // namespace
}  // namespace hvd::engine
