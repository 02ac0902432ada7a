#include "core/system/core_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "core/base/status.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/message_of.h"

namespace hvd::engine::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

cpu_set_t cores_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

int last_core() {
  const cpu_set_t set = cores_of_this_thread();
  int last = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) last = core;
  }
  return last;
}

TEST(ThreadAffinity, TiesTheThreadToTheCoreOfItsLocalRank) {
  const int core = last_core();
  std::thread([core] {
    const std::vector<int> cores = {1'000'000, core};
    pin_this_thread(cores, 1);
    const cpu_set_t set = cores_of_this_thread();
    EXPECT_EQ(CPU_COUNT(&set), 1);
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(core), &set));
  }).join();
}

TEST(ThreadAffinity, AnEmptyListMeansAnyCore) {
  const cpu_set_t before = cores_of_this_thread();
  pin_this_thread({}, 3);
  const cpu_set_t after = cores_of_this_thread();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

std::string refusal(const std::vector<int>& cores, int local_rank) {
  try {
    pin_this_thread(cores, local_rank);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ThreadAffinity, ACoreThatIsMissingIsAnErrorThatNamesTheVariable) {
  EXPECT_THAT(refusal({0}, 1), AllOf(HasSubstr("HOROVOD_THREAD_AFFINITY"), HasSubstr("1 cores"),
                                     HasSubstr("local rank 1")));
  EXPECT_THAT(refusal({1'000'000}, 0),
              AllOf(HasSubstr("HOROVOD_THREAD_AFFINITY"), HasSubstr("core 1000000")));
}

TEST(ThreadAffinity, EveryRankLearnsThatARankHasNoCore) {
  Config config;
  config.thread_affinity = {last_core()};  // for two ranks
  SimRanks ranks(2, {}, config);
  for (Rank rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(
        message_of<Error>([&] { ranks[rank].submit(allreduce("x", shared<float>({1}))).wait(); }),
        HasSubstr("HOROVOD_THREAD_AFFINITY"))
        << "rank " << rank;
  }
}

}  // namespace
}  // namespace hvd::engine::test
