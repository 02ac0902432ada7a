#include "runner/plan/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/status.h"
#include "core/config/config.h"

namespace hvd::runner {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

LaunchContext two_cores(Environment environment = {}) {
  return {.mpirun = "/usr/bin/mpirun",
          .hvdrun = "/opt/bin/hvdrun",
          .hostname = "node1",
          .folder = "/here",
          .cores = 2,
          .is_root = false,
          .environment = std::move(environment)};
}

Options ranks(int np, std::vector<HostSlots> hosts = {}) {
  Options options;
  options.np = np;
  options.hosts = std::move(hosts);
  options.command = {"./train", "--lr", "0.1"};
  return options;
}

LaunchPlan whole_plan(const Options& options, const LaunchContext& context) {
  return make_launch_plan(options, context, "key 127.0.0.1:1", "unix:meeting");
}

// How mpirun is started.
LaunchCommand plan(const Options& options, LaunchContext context) {
  context.environment.emplace("HOROVOD_CONTROLLER", "mpi");
  return whole_plan(options, context).commands.at(0);
}

Options with_controller(Options options, const std::string& controller) {
  options.settings["HOROVOD_CONTROLLER"] = {controller, "hvdrun --controller"};
  return options;
}

std::vector<std::string> after(const std::vector<std::string>& words, const std::string& word) {
  const auto it = std::find(words.begin(), words.end(), word);
  return it == words.end() ? std::vector<std::string>{}
                           : std::vector<std::string>(it + 1, words.end());
}

// What follows each -x.
std::vector<std::string> exported(const std::vector<std::string>& argv) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i + 1 < argv.size(); ++i) {
    if (argv[i] == "-x") names.push_back(argv[i + 1]);
  }
  return names;
}

TEST(LaunchPlan, MpirunStartsAnAgentPerRank) {
  const auto argv = plan(ranks(2), two_cores()).argv;
  EXPECT_EQ(argv[0], "/usr/bin/mpirun");
  EXPECT_EQ(after(argv, "-np")[0], "2");
  EXPECT_THAT(after(argv, "/opt/bin/hvdrun"), ElementsAre("agent"));
  EXPECT_THAT(ranks_of_agents(with_controller(ranks(2), "mpi"), two_cores()),
              ElementsAre(ElementsAre(0), ElementsAre(1)));
}

TEST(LaunchPlan, StaysOnThisMachineWithoutHosts) {
  EXPECT_EQ(after(plan(ranks(2), two_cores()).argv, "-H")[0], "localhost:2");
  EXPECT_FALSE(may_be_remote(ranks(2), two_cores()));
}

TEST(LaunchPlan, PassesHostsOn) {
  const Options options = ranks(3, {{"node1", 1}, {"node2", 2}});
  EXPECT_EQ(after(plan(options, two_cores()).argv, "-H")[0], "node1:1,node2:2");
  EXPECT_TRUE(may_be_remote(options, two_cores()));
  EXPECT_FALSE(may_be_remote(ranks(1, {{"node1", 1}}), two_cores()));
}

TEST(LaunchPlan, NeverTiesRanksToCores) {
  EXPECT_EQ(after(plan(ranks(1), two_cores()).argv, "--bind-to")[0], "none");
}

TEST(LaunchPlan, OversubscribesOnlyWhenThisMachineHasMoreRanksThanCores) {
  EXPECT_THAT(plan(ranks(2), two_cores()).argv, Not(Contains("--oversubscribe")));
  EXPECT_THAT(plan(ranks(3), two_cores()).argv, Contains("--oversubscribe"));
  EXPECT_THAT(plan(ranks(4, {{"node1", 2}, {"node2", 2}}), two_cores()).argv,
              Not(Contains("--oversubscribe")));
  EXPECT_THAT(plan(ranks(4, {{"localhost", 3}, {"node2", 1}}), two_cores()).argv,
              Contains("--oversubscribe"));
}

TEST(LaunchPlan, LetsRootRun) {
  LaunchContext context = two_cores();
  EXPECT_THAT(plan(ranks(1), context).environment,
              Not(Contains(Pair("OMPI_ALLOW_RUN_AS_ROOT", "1"))));
  context.is_root = true;
  EXPECT_THAT(plan(ranks(1), context).environment, Contains(Pair("OMPI_ALLOW_RUN_AS_ROOT", "1")));
  EXPECT_THAT(plan(ranks(1), context).environment,
              Contains(Pair("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")));
}

TEST(LaunchPlan, TurnsOptionsIntoSettingsThatWinOverTheEnvironment) {
  Options options = ranks(1);
  options.settings["HOROVOD_TIMELINE"] = {"t.json", "hvdrun --timeline-filename"};
  options.settings["HOROVOD_FUSION_THRESHOLD"] = {"1048576", "a;b.yaml:3"};
  const auto environment =
      plan(options, two_cores({{"HOROVOD_FUSION_THRESHOLD", "7"}, {"A", "b"}})).environment;
  EXPECT_THAT(environment, Contains(Pair("HOROVOD_TIMELINE", "t.json")));
  EXPECT_THAT(environment, Contains(Pair("HOROVOD_FUSION_THRESHOLD", "1048576")));
  EXPECT_THAT(environment, Contains(Pair("A", "b")));
  EXPECT_THAT(environment, Contains(Pair("HVD_SETTING_SOURCES",
                                         "HOROVOD_FUSION_THRESHOLD=a,b.yaml:3;"
                                         "HOROVOD_TIMELINE=hvdrun --timeline-filename")));
}

TEST(LaunchPlan, ForgetsWhatAnOuterHvdrunSet) {
  const auto environment = plan(ranks(1), two_cores({{"HVD_SETTING_SOURCES", "A=b"}})).environment;
  EXPECT_EQ(environment.count("HVD_SETTING_SOURCES"), 0u);
}

TEST(LaunchPlan, ForgetsTheRankThatStartedHvdrun) {
  const Environment of_rank = {{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_MCA_orte_launch", "1"},
                               {"PMIX_NAMESPACE", "17"},
                               {"HVD_RANK_PROCESS", "4711 place"},
                               {"HVD_WORLD", "self"},
                               {"TORCHELASTIC_RUN_ID", "none"},
                               {"A", "b"}};
  const auto environment = plan(ranks(1), two_cores(of_rank)).environment;
  EXPECT_THAT(environment, Contains(Pair("A", "b")));
  for (const auto& [name, value] : of_rank) {
    EXPECT_TRUE(name == "A" || !environment.contains(name)) << name;
  }
}

TEST(LaunchPlan, KeepsWhatAUserSetForMpi) {
  const auto environment = plan(ranks(1), two_cores({{"OMPI_MCA_btl", "self"}})).environment;
  EXPECT_THAT(environment, Contains(Pair("OMPI_MCA_btl", "self")));
}

TEST(LaunchPlan, TakesTheStartTimeoutFromOptionEnvironmentOrDefault) {
  EXPECT_EQ(whole_plan(ranks(1), two_cores()).start_timeout, std::chrono::seconds(60));
  const LaunchContext context = two_cores({{"HOROVOD_START_TIMEOUT", "5"}});
  EXPECT_EQ(whole_plan(ranks(1), context).start_timeout, std::chrono::seconds(5));
  Options options = ranks(1);
  options.settings["HOROVOD_START_TIMEOUT"] = {"0.5", "hvdrun --start-timeout"};
  EXPECT_EQ(whole_plan(options, context).start_timeout, std::chrono::milliseconds(500));
  EXPECT_THROW(plan(ranks(1), two_cores({{"HOROVOD_START_TIMEOUT", "soon"}})),
               InvalidArgumentError);
}

TEST(LaunchPlan, GivesSshThePortAndTheKeyAndNeverLetsItAsk) {
  Options options = ranks(1, {{"node2", 1}});
  EXPECT_EQ(after(plan(options, two_cores()).argv, "plm_rsh_args")[0],
            "-o BatchMode=yes -o ConnectTimeout=10");
  options.ssh_port = 2222;
  options.ssh_identity = "/k";
  EXPECT_EQ(after(plan(options, two_cores()).argv, "plm_rsh_args")[0],
            "-o BatchMode=yes -o ConnectTimeout=10 -p 2222 -i /k");
  EXPECT_THAT(plan(ranks(1), two_cores()).argv, Not(Contains("plm_rsh_args")));
  options.ssh_identity = "/my key";
  EXPECT_THROW(plan(options, two_cores()), InvalidArgumentError);
}

TEST(LaunchPlan, TellsMpiAndTheEngineWhichInterfacesToUse) {
  Options options = ranks(1);
  EXPECT_THAT(plan(options, two_cores()).argv, Not(Contains("btl_tcp_if_include")));
  options.settings["HOROVOD_GLOO_IFACE"] = {"eth0,eth1", "hvdrun --network-interfaces"};
  const auto argv = plan(options, two_cores()).argv;
  EXPECT_EQ(after(argv, "btl_tcp_if_include")[0], "eth0,eth1");
  EXPECT_EQ(after(argv, "oob_tcp_if_include")[0], "eth0,eth1");
  const auto environment = plan(options, two_cores()).environment;
  EXPECT_EQ(environment.at("HOROVOD_GLOO_IFACE"), "eth0,eth1");
  EXPECT_EQ(environment.at(kSourcesVariable), "HOROVOD_GLOO_IFACE=hvdrun --network-interfaces");
}

TEST(LaunchPlan, PassesWordsForMpirunOnBeforeTheAgent) {
  Options options = ranks(1);
  options.mpi_args = {"--mca", "x", "a b"};
  options.binding_args = {"--bind-to", "core"};
  const auto argv = plan(options, two_cores()).argv;
  EXPECT_THAT(after(argv, "--mca"), testing::IsSupersetOf({"x", "a b", "agent"}));
  EXPECT_EQ(after(argv, "--bind-to")[0], "core");
}

TEST(LaunchPlan, KeepsSettingsThatNoOptionChanges) {
  const auto environment = plan(ranks(1), two_cores({{"HOROVOD_CYCLE_TIME", "1"}})).environment;
  EXPECT_THAT(environment, Contains(Pair("HOROVOD_CYCLE_TIME", "1")));
  EXPECT_EQ(environment.count("HOROVOD_TIMELINE"), 0u);
}

TEST(LaunchPlan, ExportsSettingsAndPathsToOtherHosts) {
  const auto names = exported(plan(ranks(1), two_cores({{"HOROVOD_CYCLE_TIME", "1"},
                                                        {"HVD_X", "1"},
                                                        {"PYTHONPATH", "p"},
                                                        {"HOROVOD_HOSTNAME", "me"},
                                                        {"HOME", "/h"}}))
                                  .argv);
  EXPECT_THAT(names, ElementsAre("HOROVOD_CONTROLLER", "HOROVOD_CYCLE_TIME", "HVDRUN_AGENT",
                                 "HVD_JOB_ID", "HVD_X", "PYTHONPATH"));
}

TEST(LaunchPlan, MpirunStartsTheRanksOfOneMachineIfItIsAskedFor) {
  const LaunchContext usual = two_cores();
  LaunchContext no_mpirun = usual;
  no_mpirun.mpirun.clear();
  EXPECT_FALSE(starts_by_mpirun(ranks(2), usual));
  EXPECT_FALSE(starts_by_mpirun(with_controller(ranks(2), "gloo"), usual));
  EXPECT_TRUE(starts_by_mpirun(with_controller(ranks(2), "mpi"), usual));
  EXPECT_TRUE(starts_by_mpirun(ranks(2), two_cores({{"HOROVOD_CONTROLLER", "mpi"}})));
  EXPECT_FALSE(starts_by_mpirun(with_controller(ranks(2), "auto"),
                                two_cores({{"HOROVOD_CONTROLLER", "mpi"}})));
  EXPECT_TRUE(starts_by_mpirun(ranks(2), two_cores({{"HOROVOD_CPU_OPERATIONS", "mpi"}})));
  Options with_words = ranks(2);
  with_words.mpi_args = {"--mca", "x", "y"};
  EXPECT_TRUE(starts_by_mpirun(with_words, usual));
  EXPECT_FALSE(starts_by_mpirun(with_controller(with_words, "gloo"), usual));
  EXPECT_THROW(starts_by_mpirun(ranks(2), two_cores({{"HOROVOD_CONTROLLER", "x"}})),
               InvalidArgumentError);
  EXPECT_THROW(starts_by_mpirun(with_controller(ranks(2), "mpi"), no_mpirun), UnsupportedError);
}

TEST(LaunchPlan, SshReachesOtherMachinesUnlessMpirunIsAskedFor) {
  const Options remote = ranks(2, {{"node1", 1}, {"node2", 1}});
  EXPECT_FALSE(starts_by_mpirun(remote, two_cores()));
  EXPECT_EQ(whole_plan(remote, two_cores()).commands[1].argv[0], "ssh");
  EXPECT_TRUE(starts_by_mpirun(with_controller(remote, "mpi"), two_cores()));
}

TEST(LaunchPlan, StartsTheAgentsOfOtherMachinesWithoutSecretsInCommandLines) {
  Options options = ranks(3, {{"node1", 2}, {"node2", 1}, {"node3", 1}});
  options.launcher = "ssh";
  options.ssh_port = 2222;
  options.settings["HOROVOD_START_TIMEOUT"] = {"5", "hvdrun --start-timeout"};
  const LaunchContext context = two_cores({{"HVD_X", "secret"}, {"HOME", "/h"}});
  const LaunchPlan plan = whole_plan(options, context);
  ASSERT_EQ(plan.commands.size(), 2u) << "one per host that has ranks";
  EXPECT_THAT(plan.commands[0].argv, ElementsAre("/opt/bin/hvdrun", "agent", "0"));
  EXPECT_THAT(plan.commands[1].argv,
              ElementsAre("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-p", "2222",
                          "node2", "env HOROVOD_START_TIMEOUT=5 /opt/bin/hvdrun agent 1"));
  EXPECT_THAT(plan.exported, Contains(Pair("HVD_X", "secret")));
  EXPECT_FALSE(plan.exported.contains("HOME"));
  EXPECT_EQ(plan.folder, "/here");
  options.settings.clear();
  options.launcher = "slurm";
  EXPECT_THAT(whole_plan(options, context).commands[1].argv,
              ElementsAre("srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=node2",
                          "/opt/bin/hvdrun", "agent", "1"));
  options.launcher = "exec:kubectl exec";
  EXPECT_THAT(whole_plan(options, context).commands[1].argv,
              ElementsAre("kubectl", "exec", "node2", "/opt/bin/hvdrun", "agent", "1"));
}

TEST(LaunchPlan, LeavesAllAgentsToOthersIfThatIsAskedFor) {
  Options options = ranks(2, {{"node1", 1}, {"node2", 1}});
  options.launcher = "none";
  options.manual.key_file = "/k";
  const LaunchPlan plan = whole_plan(options, two_cores());
  EXPECT_THAT(plan.commands, IsEmpty());
  ASSERT_EQ(plan.by_hand.size(), 2u);
  EXPECT_EQ(plan.by_hand[1].host, "node2");
  EXPECT_THAT(plan.by_hand[1].argv, ElementsAre("/opt/bin/hvdrun", "agent", "1", "--driver",
                                                "127.0.0.1:1", "--key-file", "/k"));
}

TEST(LaunchPlan, StartsItsShareOfAJobOfSeveralNodes) {
  Options options = ranks(4);
  options.manual.nodes = 2;
  options.manual.node_rank = 1;
  options.manual.host = "node1";
  options.manual.port = 29400;
  const LaunchPlan plan = whole_plan(options, two_cores());
  EXPECT_FALSE(plan.remote);
  EXPECT_THAT(plan.agents, ElementsAre(ElementsAre(2, 3)));
  const Environment last = rank_variables(plan.placed, plan.nodes, plan.meeting)[3];
  EXPECT_THAT(last, testing::IsSupersetOf({Pair("RANK", "3"), Pair("LOCAL_RANK", "1"),
                                           Pair("GROUP_RANK", "1"), Pair("MASTER_ADDR", "node1"),
                                           Pair("MASTER_PORT", "29401"),
                                           Pair("HVD_RENDEZVOUS", "tcp://node1:29400")}));
  EXPECT_FALSE(last.contains("HVD_RENDEZVOUS_KEY"));
  options.manual.key_file = "/k";
  EXPECT_EQ(whole_plan(options, two_cores()).meeting->key, "key");
  EXPECT_THROW(starts_by_mpirun(with_controller(options, "mpi"), two_cores()), UnsupportedError);
}

TEST(LaunchPlan, WithoutMpirunThereIsOneAgent) {
  Options options = with_controller(ranks(2), "gloo");
  options.mpi_args = {"--mca", "x", "y"};
  const LaunchPlan plan = whole_plan(
      options, two_cores({{"A", "b"}, {"OMPI_COMM_WORLD_RANK", "5"}, {"PMIX_RANK", "5"}}));
  EXPECT_FALSE(plan.by_mpirun);
  EXPECT_THAT(plan.warnings, ElementsAre(testing::HasSubstr("--mpi-args does nothing")));
  EXPECT_THAT(plan.agents, ElementsAre(ElementsAre(0, 1)));
  ASSERT_EQ(plan.commands.size(), 1u);
  const auto& [host, argv, environment] = plan.commands[0];
  EXPECT_EQ(host, "");
  EXPECT_THAT(argv, ElementsAre("/opt/bin/hvdrun", "agent", "0"));
  EXPECT_THAT(environment, Contains(Pair("A", "b")));
  EXPECT_EQ(environment.count("HVDRUN_AGENT"), 0u);
  EXPECT_EQ(plan.agent_address, "key 127.0.0.1:1");
  EXPECT_EQ(environment.count("OMPI_COMM_WORLD_RANK"), 0u);
  EXPECT_EQ(environment.count("PMIX_RANK"), 0u);
}

}  // namespace
}  // namespace hvd::runner
