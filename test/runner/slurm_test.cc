#include "runner/plan/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/support/temporary_folder.h"

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
  EXPECT_FALSE(scheduled_job({{"PATH", "/bin"}}).has_value());
  EXPECT_FALSE(scheduled_job({{"SLURM_JOB_ID", "1"}}).has_value());
}

TEST(SlurmJob, HasHostsWithTheirSlotsAndTheNumberOfTasks) {
  const auto job = scheduled_job({{"SLURM_JOB_NODELIST", "n[1-3]"},
                                  {"SLURM_TASKS_PER_NODE", "4(x2),1"},
                                  {"SLURM_NTASKS", "9"}});
  ASSERT_TRUE(job.has_value());
  EXPECT_THAT(job->hosts, ElementsAre(HostSlots{"n1", 4}, HostSlots{"n2", 4}, HostSlots{"n3", 1}));
  EXPECT_EQ(job->tasks, 9);
}

TEST(SlurmJob, RefusesVariablesThatContradictEachOther) {
  EXPECT_THAT(
      refusal([] {
        scheduled_job({{"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "4(x2)"}});
      }),
      AllOf(HasSubstr("counts for 2 nodes"), HasSubstr("names 3")));
  EXPECT_THAT(
      refusal([] {
        scheduled_job(
            {{"SLURM_JOB_NODELIST", "n"}, {"SLURM_TASKS_PER_NODE", "4"}, {"SLURM_NTASKS", "many"}});
      }),
      HasSubstr("SLURM_NTASKS='many'"));
}

class HostFileCase : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(HostFileCase, OfASchedulerGivesHostsAndSlots) {
  const auto variable = std::get<0>(GetParam());
  const auto text = std::get<1>(GetParam());
  const TemporaryFolder folder;
  folder.write("hosts", text);
  const auto job = scheduled_job({{variable, folder.file("hosts")}});
  ASSERT_TRUE(job.has_value());
  EXPECT_THAT(job->hosts, ElementsAre(HostSlots{"n1", 2}, HostSlots{"n2.x", 1}));
  EXPECT_EQ(job->tasks, 3);
  for (const char* wrong : {"", "n1 many\n", "-n1\n", "n1 0\n"}) {
    folder.write("hosts", wrong);
    EXPECT_THAT(refusal([&] {
                  scheduled_job({{variable, folder.file("hosts")}});
                }),
                HasSubstr(variable));
  }
  EXPECT_THAT(refusal([&] { scheduled_job({{variable, "/no/such"}}); }), HasSubstr("/no/such"));
}

INSTANTIATE_TEST_SUITE_P(Each, HostFileCase,
                         testing::Values(std::tuple("PBS_NODEFILE", "n1\nn1\nn2.x\n"),
                                         std::tuple("LSB_DJOB_HOSTFILE", "n1\nn2.x\nn1\n"),
                                         std::tuple("PE_HOSTFILE",
                                                    "n1 2 all.q@n1 UNDEFINED\nn2.x 1 all.q@n2 "
                                                    "<NULL>\n")));

}  // namespace
}  // namespace hvd::runner
