#include "runner/plan/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ExpandNodes, KnowsSlurmsShortForms) {
  EXPECT_THAT(expand_nodes("a"), ElementsAre("a"));
  EXPECT_THAT(expand_nodes("n[01-03,07],m1"), ElementsAre("n01", "n02", "n03", "n07", "m1"));
  EXPECT_THAT(expand_nodes("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(expand_nodes("n[098-101]-ib"),
              ElementsAre("n098-ib", "n099-ib", "n100-ib", "n101-ib"));
  EXPECT_THAT(expand_nodes("r[1-2]n[1,3],x.y"), ElementsAre("r1n1", "r1n3", "r2n1", "r2n3", "x.y"));
}

TEST(ExpandCounts, RepeatsWhatIsInBrackets) {
  EXPECT_THAT(expand_counts("4"), ElementsAre(4));
  EXPECT_THAT(expand_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
}

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "accepted";
}

class BadNodes : public testing::TestWithParam<const char*> {};

TEST_P(BadNodes, AreRefusedNamingTheVariable) {
  EXPECT_THAT(refusal([] { expand_nodes(GetParam()); }),
              HasSubstr(std::string("SLURM_JOB_NODELIST='") + GetParam() + "'"));
}

INSTANTIATE_TEST_SUITE_P(Each, BadNodes,
                         testing::Values("", "a,", ",a", "-n", "-n[1-2]", "n[1-", "n[]", "n[3-1]",
                                         "n[a]", "n[1,]", "n[-1]", "n[1-1000000]",
                                         "n[1-99999999999]", "n[1-1000]x[1-1000]"));

class BadCounts : public testing::TestWithParam<const char*> {};

TEST_P(BadCounts, AreRefusedNamingTheVariable) {
  EXPECT_THAT(refusal([] { expand_counts(GetParam()); }),
              HasSubstr(std::string("SLURM_TASKS_PER_NODE='") + GetParam() + "'"));
}

INSTANTIATE_TEST_SUITE_P(Each, BadCounts,
                         testing::Values("", "0", "-1", "2(x", "2(x)", "2(x0)", "2x3", "1,",
                                         "2(x999999999)"));

TEST(SlurmJob, IsNoneOutsideOfSlurm) {
  EXPECT_FALSE(slurm_job({{"PATH", "/bin"}}).has_value());
  EXPECT_FALSE(slurm_job({{"SLURM_JOB_ID", "1"}}).has_value());
}

TEST(SlurmJob, HasHostsWithTheirSlotsAndTheNumberOfTasks) {
  const auto job = slurm_job({{"SLURM_JOB_NODELIST", "n[1-3]"},
                              {"SLURM_TASKS_PER_NODE", "4(x2),1"},
                              {"SLURM_NTASKS", "9"}});
  ASSERT_TRUE(job.has_value());
  EXPECT_THAT(job->hosts, ElementsAre(HostSlots{"n1", 4}, HostSlots{"n2", 4}, HostSlots{"n3", 1}));
  EXPECT_EQ(job->tasks, 9);
}

TEST(SlurmJob, RefusesVariablesThatContradictEachOther) {
  EXPECT_THAT(refusal([] {
                slurm_job({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "4(x2)"}});
              }),
              AllOf(HasSubstr("counts for 2 nodes"), HasSubstr("names 3")));
  EXPECT_THAT(
      refusal([] {
        slurm_job(
            {{"SLURM_JOB_NODELIST", "n"}, {"SLURM_TASKS_PER_NODE", "4"}, {"SLURM_NTASKS", "many"}});
      }),
      HasSubstr("SLURM_NTASKS='many'"));
}

}  // namespace
}  // namespace hvd::runner
