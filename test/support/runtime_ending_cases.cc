// How jobs end: ranks that leave, ranks that cannot go on, ranks that die.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/support/runtime_cases.h"

namespace hvd::engine::test {
namespace {

using std::chrono::milliseconds;

// -- leaving

// The sender leaves as soon as its end is done; the receiver may not have looked yet.
void what_met_before_a_shutdown_ends(const RuntimePlace& at) {
  if (at.rank == 0) {
    at.runtime.submit(send(shared<float>({6}), 1, 0, at.device)).wait();
    at.runtime.shutdown();
  } else if (at.rank == 1) {
    const auto got = shared<float>({0});
    at.runtime.submit(receive(got, 0, 0, at.device)).wait();
    EXPECT_EQ(got->front(), 6);
  } else {
    while (at.runtime.stopped().ok()) std::this_thread::sleep_for(milliseconds(1));
  }
}

// And nothing is sent after it.
void the_rest_fails_with_the_reason(const RuntimePlace& at) {
  const Rank last = at.size - 1;
  meet(at, "before one leaves");
  if (at.rank == last) {
    at.runtime.shutdown();
    return;
  }
  for (const bool transfer : {true, false}) {
    try {
      if (transfer) {
        at.runtime.submit(receive(shared<float>({0}), last, 0, at.device)).wait();
      } else {
        at.runtime.submit(allreduce("x", shared<float>({1}), ReduceOp::kSum, at.device)).wait();
      }
      ADD_FAILURE() << "nobody was there";
    } catch (const AbortedError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank " + std::to_string(last)), std::string::npos) << text;
    }
  }
  EXPECT_FALSE(at.runtime.ended_in_error());
}

// -- failures

template <typename Expected, typename Call>
void expect_error(const RuntimePlace& at, const std::vector<std::string>& named, Call call) {
  try {
    call();
    ADD_FAILURE() << "rank " << at.rank << " was told nothing";
  } catch (const Expected& error) {
    for (const std::string& each : named) {
      EXPECT_NE(std::string(error.what()).find(each), std::string::npos) << error.what();
    }
  }
}

void expect_stopped(const RuntimePlace& at, StatusCode code) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(60);
  while (at.runtime.stopped().ok() && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));  // the others told it, and it may be slower
  }
  EXPECT_EQ(at.runtime.stopped().code(), code) << at.runtime.stopped().message();
}

// A real collective of a rank that has no memory left.
class FullCollective final : public ForwardingCollective {
 public:
  using ForwardingCollective::ForwardingCollective;
  Buffer allocate_result(std::size_t) override { throw std::bad_alloc(); }
};

template <typename Changed>
std::unique_ptr<Collective> on_rank_1(Rank rank, std::unique_ptr<Collective> inner) {
  if (rank != 1) return inner;
  return std::make_unique<Changed>(std::move(inner));
}

void full_memory_stops_every_rank(const RuntimePlace& at) {
  at.runtime.submit(allreduce("before", shared<float>({1}), ReduceOp::kSum, at.device)).wait();
  const Handle transfer = at.runtime.submit(receive(shared<float>({0}), at.next(), 0, at.device));
  const Handle handle = at.runtime.submit(allgather("rows", shared<float>({1, 2}), 1, at.device));
  for (const Handle& each : {handle, transfer}) {
    expect_error<PeerLostError>(at, {"rank 1", "out of memory"}, [&] { each.wait(); });
  }
  EXPECT_THROW(at.runtime.submit(allreduce("later", shared<float>({1}), ReduceOp::kSum, at.device)),
               PeerLostError);
}

void rows_that_cannot_be_added_stop_every_rank(const RuntimePlace& at) {
  auto rows = allgather("huge", shared<std::int64_t>({}), 0, at.device);
  rows.parts[0].rows = std::numeric_limits<std::int64_t>::max() - 1;
  const Handle handle = at.runtime.submit(std::move(rows));
  expect_error<InternalError>(at, {"'huge'"}, [&] { handle.wait(); });
  expect_stopped(at, StatusCode::kInternal);
}

void counts_that_lie_stop_every_rank(const RuntimePlace& at) {
  expect_error<InternalError>(at, {"'lie': rank 1 announced -5 rows"}, [&] {
    at.runtime.submit(allgather("lie", shared<float>({1}), 1, at.device)).wait();
  });
}

void a_stall_is_given_up(const RuntimePlace& at) {
  if (at.rank != 1) {
    const Handle handle =
        at.runtime.submit(allreduce("lonely", shared<float>({1}), ReduceOp::kSum, at.device));
    expect_error<StalledError>(at, {}, [&] { handle.wait(); });
  }
  expect_stopped(at, StatusCode::kStalled);
}

void give_up_soon(Config& config, Rank) {
  config.stall_warning = milliseconds(50);
  config.stall_limit = milliseconds(400);
}

// -- deaths

template <typename Call>
void expect_lost(const RuntimePlace& at, Call call) {
  expect_error<PeerLostError>(at, {"rank " + std::to_string(at.size - 1)}, call);
}

// The others wait for it in a transfer, in a collective that has begun and in one that has not.
void every_survivor_learns_who_died(const RuntimePlace& at) {
  const Rank victim = at.size - 1;
  Handle transfer;
  std::vector<Handle> handles;
  try {
    transfer =
        at.runtime.submit(receive(shared<float>({0}), at.rank == 0 ? victim : 0, 5, at.device));
    for (int i = 0; i < 20; ++i) {
      const auto values = shared(std::vector<float>(100'000, 1));
      handles.push_back(at.runtime.submit(
          allreduce("gradient." + std::to_string(i), values, ReduceOp::kSum, at.device)));
    }
  } catch (const PeerLostError&) {  // it is gone before this rank is here
  }
  if (at.rank == victim) raise(SIGKILL);
  expect_lost(at, [&] {
    at.runtime.submit(allreduce("after", shared<float>({1}), ReduceOp::kSum, at.device)).wait();
  });
  if (!handles.empty()) expect_lost(at, [&] { transfer.wait(); });
  for (const Handle& handle : handles) {
    try {
      handle.wait();  // either it was finished before, or
    } catch (const PeerLostError&) {
    }
  }
  EXPECT_EQ(at.runtime.stopped().code(), StatusCode::kTransport);
  EXPECT_TRUE(at.runtime.ended_in_error()) << "MPI_Finalize would wait for the victim";
}

}  // namespace

void add_runtime_leaving_cases(RuntimeCases& cases) {
  cases.push_back({"TransfersThatMetBeforeAShutdownEnd", what_met_before_a_shutdown_ends});
  cases.push_back({"WhatIsLeftFailsWithTheReasonOfTheStop", the_rest_fails_with_the_reason});
}

void add_runtime_failure_cases(RuntimeCases& cases) {
  cases.push_back({"FullMemoryOfOneRankStopsEveryRank",
                   full_memory_stops_every_rank,
                   {},
                   on_rank_1<FullCollective>});
  cases.push_back(
      {"RowsThatCannotBeAddedStopEveryRank", rows_that_cannot_be_added_stop_every_rank});
  cases.push_back({"CountsThatLieStopEveryRank",
                   counts_that_lie_stop_every_rank,
                   {},
                   on_rank_1<LyingCollective>});
  cases.push_back({"AStallIsGivenUpAtTheLimit", a_stall_is_given_up, give_up_soon});
}

void add_runtime_death_cases(RuntimeCases& cases) {
  cases.push_back({"EverySurvivorLearnsWhoDied", every_survivor_learns_who_died});
}

}  // namespace hvd::engine::test
