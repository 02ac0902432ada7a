// Many jobs of random shape: ranks, limits, sizes, dtypes and operations, and ranks that come late.

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <random>
#include <thread>

#include "test/ops/shm/shm_ranks.h"
#include "test/support/collective_cases.h"
#include "test/support/lock_step_cluster.h"
#include "test/support/run_ranks.h"

namespace hvd::engine::test {
namespace {

// The same on all ranks.
struct Plan {
  ReduceOp op;
  DType dtype;
  std::vector<std::int64_t> numels;  // of the slices of one batch
  bool in_place;
};

struct Job {
  int size;
  ShmLimits limits;
  std::vector<Plan> plans;
};

Job random_job(std::mt19937& random) {
  const auto below = [&](unsigned count) { return random() % count; };
  const auto any = [&](const auto& list) {
    return list[below(static_cast<unsigned>(std::size(list)))];
  };
  Job job;
  job.size = 2 + static_cast<int>(below(4));
  job.limits.lanes = 1 + below(3);
  job.limits.chunk_bytes = std::size_t{4096} << below(6);
  job.limits.small_bytes = std::size_t{4096} * below(32);
  for (unsigned plan = 0; plan < 3; ++plan) {
    job.plans.push_back({any(std::array{ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}),
                         any(std::array{DType::kF32, DType::kF64, DType::kI32, DType::kU8}),
                         {},
                         below(2) == 0});
    for (unsigned slice = 0; slice <= below(4); ++slice) {
      job.plans.back().numels.push_back(
          static_cast<std::int64_t>(below(below(2) == 0 ? 100 : 100'000)));
    }
  }
  return job;
}

void pause(std::mt19937& random) {
  if (random() % 3 != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
}

void run_job(const Job& job, Collective& collective, Rank rank, std::mt19937 random) {
  std::deque<Batch> batches;
  Operations operations;
  for (const Plan& plan : job.plans) {
    Batch& batch = batches.emplace_back();
    for (const std::int64_t numel : plan.numels) {
      batch.add(contributions(plan.op, plan.dtype, rank, numel), plan.in_place);
    }
    pause(random);
    operations.push_back(collective.all_reduce(batch.slices(), {.op = plan.op}));
  }
  const TimePoint deadline = Clock::now() + std::chrono::seconds(60);
  for (bool finished = false; !finished;) {
    finished = true;
    pause(random);
    for (const auto& operation : operations) finished = operation->advance() && finished;
    ASSERT_LT(Clock::now(), deadline);
  }
  for (std::size_t p = 0; p < job.plans.size(); ++p) {
    const Plan& plan = job.plans[p];
    for (std::size_t s = 0; s < plan.numels.size(); ++s) {
      expect_same(batches[p].output(s), combination(plan.op, plan.dtype, job.size, plan.numels[s]),
                  "all-reduce");
    }
  }
}

TEST(ShmCollective, IsExactWhateverTheSizesAndDelays) {
  for (int seed = 0; seed < repetitions(100); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    const Job job = random_job(random);
    ShmRanks ranks(job.size, job.limits);
    run_ranks(job.size, [&](Rank rank) {
      const auto own = static_cast<std::uint32_t>(seed * 16 + rank);
      run_job(job, ranks[rank], rank, std::mt19937(own));
    });
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace hvd::engine::test
