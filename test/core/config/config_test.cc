#include "core/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "core/config/launch_info.h"
#include "core/config/log.h"
#include "test/support/message_of.h"
#include "test/support/scoped_environment.h"

namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

class ConfigTest : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) { environment_.set(name, value); }
  std::string error_of_reading() {
    try {
      read_config();
    } catch (const InvalidArgumentError& error) {
      return error.what();
    }
    return "";
  }

  ScopedEnvironment environment_;
};

TEST_F(ConfigTest, ReadsTheVariablesOfTheReference) {
  set("HOROVOD_FUSION_THRESHOLD", "0");
  set("HOROVOD_CYCLE_TIME", "2.5");
  set("HOROVOD_CACHE_CAPACITY", "7");
  set("HOROVOD_STALL_CHECK_TIME_SECONDS", "3");
  set("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "5");
  set("HOROVOD_START_TIMEOUT", "9");
  set("HOROVOD_DISABLE_GROUP_FUSION", "1");
  set("HOROVOD_TIMELINE", "t.json");
  set("HOROVOD_TIMELINE_MARK_CYCLES", "yes");
  set("HOROVOD_LOG_LEVEL", "TRACE");
  set("HOROVOD_LOG_HIDE_TIME", "True");
  set("HOROVOD_MPI_THREADS_DISABLE", "1");
  set("HOROVOD_HOSTNAME", "a");
  const Config config = read_config();
  EXPECT_EQ(config.fusion_threshold, 0u);
  EXPECT_EQ(config.batching_gap, std::chrono::microseconds(2500));
  EXPECT_EQ(config.cache_capacity, 7u);
  EXPECT_EQ(config.stall_warning, std::chrono::seconds(3));
  EXPECT_EQ(config.stall_limit, std::chrono::seconds(5));
  EXPECT_EQ(config.start_timeout, std::chrono::seconds(9));
  EXPECT_TRUE(config.disable_group_fusion);
  EXPECT_EQ(config.timeline, "t.json");
  EXPECT_TRUE(config.timeline_mark_cycles);
  EXPECT_EQ(config.log_level, LogLevel::kTrace);
  EXPECT_TRUE(config.log_hide_time);
  EXPECT_TRUE(config.mpi_threads_disable);
  EXPECT_EQ(config.hostname, "a");
}

TEST_F(ConfigTest, ReadsTheVariablesOfAutotune) {
  set("HOROVOD_AUTOTUNE", "1");
  set("HOROVOD_AUTOTUNE_LOG", "log.csv");
  set("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1");
  set("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "2");
  set("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "4");
  set("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.5");
  const Config config = read_config();
  EXPECT_TRUE(config.autotune);
  EXPECT_EQ(config.autotune_log, "log.csv");
  EXPECT_EQ(config.autotune_warmup_samples, 1u);
  EXPECT_EQ(config.autotune_steps_per_sample, 2u);
  EXPECT_EQ(config.autotune_max_samples, 4u);
  EXPECT_EQ(config.autotune_noise, 0.5);
}

TEST_F(ConfigTest, ReadsItsOwnVariables) {
  set("HOROVOD_DETERMINISTIC", "1");
  set("HVD_STATS", "on");
  set("HVD_TIMELINE_MAX_MB", "3");
  set("HVD_FLIGHT_RECORDER_DIR", "/d");
  set("HVD_FLIGHT_RECORDER_SIZE", "0");
  const Config config = read_config();
  EXPECT_TRUE(config.deterministic);
  EXPECT_TRUE(config.stats);
  EXPECT_EQ(config.timeline_max_mb, 3u);
  EXPECT_EQ(config.flight_recorder_dir, "/d");
  EXPECT_EQ(config.flight_recorder_size, 0u);
}

// GAP-49: Horovod's launcher takes one number where its engine wants a list.
TEST_F(ConfigTest, ThreadAffinityIsACoreForEachLocalRank) {
  set("HOROVOD_THREAD_AFFINITY", "4,0,12");
  EXPECT_THAT(read_config().thread_affinity, ElementsAre(4, 0, 12));
  for (const char* bad : {"1,", ",1", "1,,2", "-1", "a", "1;2", "1, 2"}) {
    set("HOROVOD_THREAD_AFFINITY", bad);
    EXPECT_THAT(error_of_reading(),
                HasSubstr("HOROVOD_THREAD_AFFINITY='" + std::string(bad) + "'"));
  }
}

// GAP-40: horovod.run() sends "(None,)" to its workers, which take it for 0.
TEST_F(ConfigTest, TextThatIsNoNumberIsNeverZero) {
  for (const char* name : {"HOROVOD_CYCLE_TIME", "HOROVOD_CACHE_CAPACITY",
                           "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "HOROVOD_START_TIMEOUT"}) {
    set(name, "(None,)");
    EXPECT_THAT(error_of_reading(), HasSubstr(std::string(name) + "='(None,)': expected"));
    environment_.unset(name);
  }
}

TEST_F(ConfigTest, LimitsThatThereHaveToBeAreAtLeastASecond) {
  for (const char* name : {"HVD_LINK_TIMEOUT_SECONDS", "HVD_SHUTDOWN_TIMEOUT_SECONDS"}) {
    for (const char* bad : {"0", "0.5", "-1", "1e7", "never", ""}) {
      set(name, bad);
      EXPECT_THAT(error_of_reading(), HasSubstr(std::string(name) + "='" + bad + "'"));
    }
    set(name, "90");
  }
  EXPECT_EQ(read_config().link_timeout, std::chrono::seconds(90));
  EXPECT_EQ(read_config().shutdown_timeout, std::chrono::seconds(90));
}

TEST_F(ConfigTest, DynamicMeansNoTimelineYet) {
  set("HOROVOD_TIMELINE", "DYNAMIC");
  EXPECT_EQ(read_config().timeline, "");
}

TEST_F(ConfigTest, AnUnknownLogLevelIsMalformedAndLoggingGoesOn) {
  set("HOROVOD_LOG_LEVEL", "loud");
  EXPECT_THAT(error_of_reading(), AllOf(HasSubstr("HOROVOD_LOG_LEVEL='loud'"), HasSubstr("debug")));
  EXPECT_EQ(read_log_level(), LogLevel::kWarning);
  set("HOROVOD_LOG_LEVEL", "off");
  EXPECT_EQ(error_of_reading(), "");
  EXPECT_EQ(read_log_level(), LogLevel::kOff);
}

class Malformed : public ConfigTest,
                  public ::testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(Malformed, ValuesAreErrorsThatNameVariableAndValue) {
  const auto [name, value] = GetParam();
  set(name, value);
  EXPECT_THAT(error_of_reading(),
              AllOf(HasSubstr(std::string(name) + "='" + value + "'"), HasSubstr("expected ")));
}

INSTANTIATE_TEST_SUITE_P(
    Each, Malformed,
    ::testing::Values(
        std::pair("HOROVOD_FUSION_THRESHOLD", "64MB"), std::pair("HOROVOD_CYCLE_TIME", "-1"),
        std::pair("HOROVOD_CYCLE_TIME", "inf"), std::pair("HVD_FLIGHT_RECORDER_SIZE", "1000001"),
        std::pair("HOROVOD_FUSION_THRESHOLD", "-1"), std::pair("HOROVOD_FUSION_THRESHOLD", "1e6"),
        std::pair("HOROVOD_FUSION_THRESHOLD", "99999999999999999999"),
        std::pair("HOROVOD_CYCLE_TIME", "nan"), std::pair("HOROVOD_CYCLE_TIME", "20000"),
        std::pair("HOROVOD_CYCLE_TIME", ""), std::pair("HOROVOD_CACHE_CAPACITY", " 5"),
        std::pair("HOROVOD_TIMELINE_MARK_CYCLES", "2"), std::pair("HOROVOD_AUTOTUNE", "maybe"),
        std::pair("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "0"),
        std::pair("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "0"),
        std::pair("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "1.5"),
        std::pair("HVD_TIMELINE_MAX_MB", "0"), std::pair("HOROVOD_CONTROLLER", "mpich"),
        std::pair("HOROVOD_CPU_OPERATIONS", "ccl")));

TEST_F(ConfigTest, FlagsAreWrittenAsPeopleWriteThem) {
  for (const char* yes : {"1", "true", "TRUE", "yes", "Yes", "on"}) {
    set("HVD_STATS", yes);
    EXPECT_TRUE(read_config().stats) << yes;
  }
  for (const char* no : {"0", "false", "False", "no", "off", ""}) {
    set("HVD_STATS", no);
    EXPECT_FALSE(read_config().stats) << no;
  }
}

TEST_F(ConfigTest, DeterminismAndTuningContradictEachOther) {
  set("HOROVOD_AUTOTUNE", "1");
  EXPECT_EQ(error_of_reading(), "");
  set("HOROVOD_DETERMINISTIC", "1");
  EXPECT_THAT(error_of_reading(),
              AllOf(HasSubstr("HOROVOD_DETERMINISTIC"), HasSubstr("HOROVOD_AUTOTUNE")));
}

SettingInfo find(const std::vector<SettingInfo>& rows, const std::string& name) {
  for (const SettingInfo& row : rows) {
    if (row.name == name) return row;
  }
  ADD_FAILURE() << "no row " << name;
  return {};
}

TEST_F(ConfigTest, ShowsWhatIsInForceAndWhereItCameFrom) {
  set("HOROVOD_CYCLE_TIME", "2.50");
  set("HOROVOD_FUSION_THRESHOLD", "1048576");
  set("HOROVOD_THREAD_AFFINITY", "0,3");
  set(kSourcesVariable, "HOROVOD_FUSION_THRESHOLD=hvdrun --fusion-threshold-mb;HVD_X=job.yaml:3");
  const auto rows = describe_settings(read_config());
  const SettingInfo gap = find(rows, "HOROVOD_CYCLE_TIME");
  EXPECT_EQ(gap.value, "2.5");
  EXPECT_EQ(gap.default_value, "0");
  EXPECT_EQ(gap.source, "environment");
  EXPECT_THAT(gap.meaning, HasSubstr("milliseconds"));
  EXPECT_EQ(find(rows, "HOROVOD_FUSION_THRESHOLD").source, "hvdrun --fusion-threshold-mb");
  EXPECT_EQ(find(rows, "HOROVOD_THREAD_AFFINITY").value, "0,3");
  EXPECT_EQ(find(rows, "HOROVOD_CACHE_CAPACITY").source, "default");
  EXPECT_EQ(find(rows, "HOROVOD_CACHE_CAPACITY").value, "4096");
}

TEST_F(ConfigTest, EveryValueItShowsIsOneThatItReads) {
  for (const SettingInfo& row : describe_settings(Config{})) {
    EXPECT_NO_THROW(check_setting(row.name, row.default_value, row.name)) << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
  }
}

std::vector<std::string> settings_of(Agreement agreement) {
  std::vector<std::string> names;
  for (const SettingInfo& row : describe_settings(Config{})) {
    if (row.agreement == agreement) names.push_back(row.name);
  }
  return names;
}

TEST_F(ConfigTest, WhatChoosesAnAlgorithmOrAConnectionIsTheSameOnAllRanks) {
  EXPECT_THAT(settings_of(Agreement::kEqual),
              IsSupersetOf({"HOROVOD_DETERMINISTIC", "HOROVOD_HIERARCHICAL_ALLREDUCE",
                            "HOROVOD_HIERARCHICAL_ALLGATHER", "HVD_CONTROL_PLANE",
                            "HOROVOD_CONTROLLER", "HOROVOD_CPU_OPERATIONS", "HVD_GPU_OPERATIONS"}));
}

// Each of them has to be right whatever the others have.
TEST_F(ConfigTest, WhatConcernsARankAloneIsItsOwn) {
  EXPECT_THAT(settings_of(Agreement::kPerRank),
              UnorderedElementsAre(
                  "HOROVOD_START_TIMEOUT", "HVD_FLIGHT_RECORDER_DIR", "HVD_FLIGHT_RECORDER_SIZE",
                  "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",  // without effect
                  "HOROVOD_LOG_LEVEL", "HOROVOD_LOG_HIDE_TIME", "HOROVOD_HOSTNAME",
                  "HOROVOD_THREAD_AFFINITY", "HVD_BIND_CORES", "HOROVOD_MPI_THREADS_DISABLE",
                  "HOROVOD_DYNAMIC_PROCESS_SETS", "HOROVOD_GLOO_IFACE", "HVD_WORLD",
                  "HVD_PORT_RANGE", "HVD_ADVERTISE_ADDRESS", "HVD_RENDEZVOUS", "HVD_REQUIRE_KEY",
                  "HOROVOD_ENABLE_ASYNC_COMPLETION"));
}

TEST_F(ConfigTest, AValueOfRankZeroReplacesThisRanksOwn) {
  Config config;
  take_from_rank_zero(config, "HOROVOD_CYCLE_TIME", "0");
  EXPECT_TRUE(config.is_default("HOROVOD_CYCLE_TIME"));
  take_from_rank_zero(config, "HOROVOD_CYCLE_TIME", "1.5");
  EXPECT_EQ(config.batching_gap, std::chrono::microseconds(1'500));
  EXPECT_EQ(find(describe_settings(config), "HOROVOD_CYCLE_TIME").source, "rank 0");
  EXPECT_THROW(take_from_rank_zero(config, "HOROVOD_CYCLE_TIME", "x"), InvalidArgumentError);
  EXPECT_THROW(take_from_rank_zero(config, "HVD_NOTHING", "1"), InternalError);
}

TEST_F(ConfigTest, TimesAreReadAsTheyAreWritten) {
  for (const char* text : {"0.1", "0.3", "1.1", "16.9", "59.999", "123456.789", "0.000000001"}) {
    set("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", text);
    const Config config = read_config();
    const std::string written =
        find(describe_settings(config), "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS").value;
    Config other;
    take_from_rank_zero(other, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", written);
    EXPECT_EQ(other.stall_limit, config.stall_limit) << text;
    EXPECT_EQ(written, std::string(text) == "0.000000001" ? "1e-09" : text);
  }
}

TEST_F(ConfigTest, BlamesTheLauncherForWhatTheLauncherSet) {
  set("HOROVOD_CYCLE_TIME", "soon");
  set(kSourcesVariable, "HOROVOD_CYCLE_TIME=job.yaml:3");
  EXPECT_THAT(error_of_reading(), HasSubstr("HOROVOD_CYCLE_TIME (job.yaml:3)='soon'"));
}

TEST_F(ConfigTest, KnowsWhatTheUserChose) {
  set("HOROVOD_CYCLE_TIME", "0");
  EXPECT_FALSE(read_config().is_default("HOROVOD_CYCLE_TIME"));
  EXPECT_TRUE(read_config().is_default("HOROVOD_FUSION_THRESHOLD"));
}

TEST_F(ConfigTest, AnOptionIsCheckedLikeItsVariable) {
  EXPECT_NO_THROW(check_setting("HOROVOD_CYCLE_TIME", "1.5", "--cycle-time-ms"));
  EXPECT_THAT(message_of<InvalidArgumentError>(
                  [&] { check_setting("HOROVOD_CYCLE_TIME", "-1", "--cycle-time-ms"); }),
              HasSubstr("--cycle-time-ms='-1': expected milliseconds"));
}

std::string warnings_of_reading() {
  ::testing::internal::CaptureStderr();
  read_config();
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(ConfigTest, WarnsOnceOfVariablesThatDoNothingHere) {
  set("HOROVOD_NUM_NCCL_STREAMS", "2");
  EXPECT_THAT(warnings_of_reading(),
              AllOf(HasSubstr("HOROVOD_NUM_NCCL_STREAMS='2'"), HasSubstr("NCCL")));
  EXPECT_EQ(warnings_of_reading(), "");
}

TEST_F(ConfigTest, DoesNotWarnOfWhatIsSwitchedOffOrOfOtherRanks) {
  set("HOROVOD_TORUS_ALLREDUCE", "0");
  EXPECT_EQ(warnings_of_reading(), "");
  set("HOROVOD_CCL_CACHE", "1");
  set("OMPI_COMM_WORLD_RANK", "1");
  EXPECT_EQ(warnings_of_reading(), "");
}

TEST_F(ConfigTest, WarnsOnceOfNamesThatNobodyKnows) {
  set("HOROVOD_FUSION_TRESHOLD", "1");
  set("HOROVOD_SIZE", "2");
  set("HOROVOD_WITH_MPI", "1");
  set("HVD_STAT", "1");
  set("HVD_CUDA", "ON");  // of a build
  set("HVD_WORKER_KEY", "1");
  EXPECT_THAT(
      warnings_of_reading(),
      AllOf(HasSubstr("HOROVOD_FUSION_TRESHOLD is not a setting of horovod_cpp; did you mean "
                      "HOROVOD_FUSION_THRESHOLD? (hvdrun --help-settings lists them)"),
            HasSubstr("HVD_STAT is not a setting of horovod_cpp; did you mean HVD_STATS?"),
            Not(HasSubstr("HOROVOD_SIZE")), Not(HasSubstr("HOROVOD_WITH_MPI")),
            Not(HasSubstr("HVD_CUDA")), Not(HasSubstr("HVD_WORKER"))));
  EXPECT_EQ(warnings_of_reading(), "");
}

TEST_F(ConfigTest, GlooIsAcceptedWithAWordAboutWhatIsUsed) {
  set("HOROVOD_CPU_OPERATIONS", "gloo");
  EXPECT_THAT(warnings_of_reading(),
              HasSubstr("shared memory and, between hosts, over TCP or by MPI"));
}

TEST_F(ConfigTest, TheControllerIsMpiGlooOrChosenHere) {
  EXPECT_EQ(read_config().controller, "auto");
  for (const char* known : {"mpi", "gloo", "auto"}) {
    set("HOROVOD_CONTROLLER", known);
    EXPECT_EQ(read_config().controller, known);
  }
  set("HVD_RENDEZVOUS", "file:///tmp/job");
  EXPECT_EQ(read_config().rendezvous, "file:///tmp/job");
}

TEST_F(ConfigTest, RanksThatTorchrunStartedInAStepOfSlurmAreTorchruns) {
  set("SLURM_PROCID", "0");
  set("SLURM_STEP_NUM_TASKS", "1");
  set("SLURM_STEP_ID", "0");
  set("RANK", "3");
  set("WORLD_SIZE", "4");
  EXPECT_EQ(read_launch_info().launcher, "Slurm");
  set("TORCHELASTIC_RUN_ID", "none");
  EXPECT_EQ(read_launch_info().launcher, "torchrun");
  EXPECT_EQ(read_launch_info().size, 4);
}

TEST_F(ConfigTest, FindsHowManyRanksShareTheHost) {
  set("RANK", "1");
  set("WORLD_SIZE", "4");
  EXPECT_FALSE(read_launch_info().local_size.has_value());
  set("LOCAL_WORLD_SIZE", "2");
  EXPECT_EQ(read_launch_info().local_size, 2);
}

TEST_F(ConfigTest, TensorsMoveThroughSharedMemoryUnlessMpiOrTcpIsAskedFor) {
  EXPECT_EQ(read_config().cpu_operations, "shm");
  for (const char* each : {"shm", "mpi", "tcp"}) {
    set("HOROVOD_CPU_OPERATIONS", each);
    EXPECT_EQ(read_config().cpu_operations, each);
    EXPECT_EQ(warnings_of_reading(), "");
  }
}

TEST_F(ConfigTest, TensorsOfGpusMoveByNcclIfItIsAskedFor) {
  EXPECT_EQ(read_config().gpu_operations, "none");
  set("HVD_GPU_OPERATIONS", "nccl");
  EXPECT_EQ(read_config().gpu_operations, "nccl");
  set("HVD_GPU_OPERATIONS", "auto");
  EXPECT_EQ(read_config().gpu_operations, "auto");
  set("HVD_GPU_OPERATIONS", "mpi");
  EXPECT_THAT(error_of_reading(), HasSubstr("none, auto, nccl, ipc or host"));
}

TEST_F(ConfigTest, PortsAreARange) {
  EXPECT_EQ(read_config().port_range, PortRange());
  for (const char* text : {"20000-20100", "1-65535", "7-7"}) {
    set("HVD_PORT_RANGE", text);
    EXPECT_EQ(find(describe_settings(read_config()), "HVD_PORT_RANGE").value, text);
  }
  set("HVD_PORT_RANGE", "29400");
  EXPECT_EQ(read_config().port_range, (PortRange{29400, 29400}));
  for (const char* text : {"2-1", "0-5", "1-65536", "1-2-3", "a-b", "1-"}) {
    set("HVD_PORT_RANGE", text);
    EXPECT_THAT(error_of_reading(), HasSubstr("expected two ports such as 20000-20100")) << text;
  }
}

TEST_F(ConfigTest, DisablingTheStallCheckSetsNoWarningAndNoLimit) {
  set("HOROVOD_STALL_CHECK_DISABLE", "1");
  EXPECT_EQ(read_config().stall_warning, Duration::zero());
  EXPECT_EQ(read_config().stall_limit, Duration::zero());
  EXPECT_EQ(find(describe_settings(read_config()), "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS").source,
            "HOROVOD_STALL_CHECK_DISABLE");
  set("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "20");
  EXPECT_EQ(read_config().stall_limit, std::chrono::seconds(20));
  set("HOROVOD_STALL_CHECK_DISABLE", "maybe");
  EXPECT_THAT(error_of_reading(), HasSubstr("HOROVOD_STALL_CHECK_DISABLE"));
}

TEST_F(ConfigTest, FindsTheLauncherByItsVariables) {
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "4");
  const LaunchInfo info = read_launch_info();
  EXPECT_EQ(info.launcher, "Open MPI");
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.size, 4);
}

TEST_F(ConfigTest, FindsNoLauncherOfAProcessThatWantsAWorldOfItsOwn) {
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "4");
  set("HVD_WORLD", "self");
  EXPECT_TRUE(has_own_world());
  EXPECT_EQ(read_launch_info().launcher, "");
  set("HVD_WORLD", "mine");
  EXPECT_THAT(error_of_reading(), HasSubstr("HVD_WORLD='mine': expected job or self"));
}

TEST_F(ConfigTest, TrustsMpiAboveTheLauncherThatStartedIt) {
  set("HOROVOD_RANK", "0");
  set("HOROVOD_SIZE", "8");
  EXPECT_EQ(read_launch_info().launcher, "hvdrun");
  EXPECT_FALSE(read_launch_info().speaks_mpi);
  set("OMPI_COMM_WORLD_RANK", "1");
  set("OMPI_COMM_WORLD_SIZE", "4");
  EXPECT_EQ(read_launch_info().launcher, "Open MPI");
  EXPECT_EQ(read_launch_info().size, 4);
  EXPECT_TRUE(read_launch_info().speaks_mpi);
}

TEST_F(ConfigTest, TheShellOfASlurmAllocationIsNoLauncher) {
  set("SLURM_NTASKS", "4");  // salloc
  EXPECT_EQ(read_launch_info().launcher, "");
  set("SLURM_PROCID", "0");  // a batch script
  set("ENVIRONMENT", "BATCH");
  EXPECT_EQ(read_launch_info().launcher, "");
  set("SLURM_STEP_ID", "0");  // srun in that script
  EXPECT_EQ(read_launch_info().launcher, "Slurm");
  EXPECT_EQ(read_launch_info().size, 4);
}

TEST_F(ConfigTest, FindsTheRankOfASlurmTask) {
  set("SLURM_JOB_ID", "17");
  set("SLURM_STEP_ID", "0");
  set("SLURM_PROCID", "5");
  set("SLURM_NTASKS", "8");
  set("SLURM_LOCALID", "1");
  LaunchInfo info = read_launch_info();
  EXPECT_EQ(info.launcher, "Slurm");
  EXPECT_EQ(info.rank, 5);
  EXPECT_EQ(info.size, 8);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_FALSE(info.speaks_mpi);
  set("PMIX_RANK", "5");  // srun --mpi=pmix
  set("SLURM_STEP_NUM_TASKS", "8");
  EXPECT_TRUE(read_launch_info().speaks_mpi);
}

TEST_F(ConfigTest, AnMpiThatTheProgramInitialisedItselfIsNoLauncher) {
  set("HOROVOD_RANK", "1");
  set("HOROVOD_SIZE", "2");
  set("PMIX_RANK", "0");  // by MPI_Init in a process that no mpirun started
  EXPECT_EQ(read_launch_info().launcher, "hvdrun");
  EXPECT_EQ(read_launch_info().size, 2);
}

TEST_F(ConfigTest, ASlurmStepCanBeSmallerThanItsAllocation) {
  set("SLURM_PROCID", "0");
  set("SLURM_STEP_ID", "0");
  set("SLURM_NTASKS", "8");
  set("SLURM_STEP_NUM_TASKS", "1");  // the shell of salloc
  EXPECT_EQ(read_launch_info().size, 1);
}

TEST_F(ConfigTest, AdvisesSlurmUsersOnSrunAndHvdrun) {
  EXPECT_THAT(launch_advice("Slurm"), AllOf(HasSubstr("--mpi=pmix"), HasSubstr("hvdrun")));
  EXPECT_THAT(launch_advice("torchrun"), HasSubstr("mpirun"));
}

TEST_F(ConfigTest, ARankWithoutASizeIsNotAJob) {
  set("RANK", "3");
  EXPECT_EQ(read_launch_info().launcher, "");
  set("WORLD_SIZE", "4");
  EXPECT_EQ(read_launch_info().launcher, "whoever set RANK and WORLD_SIZE");
}

TEST(DTypeNames, RoundTripAndUnknownNamesListTheKnownOnes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    EXPECT_EQ(parse_dtype(name_of(static_cast<DType>(i))), static_cast<DType>(i));
  }
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { parse_dtype("float8"); }),
              AllOf(HasSubstr("float8"), HasSubstr("bfloat16")));
}

TEST(Shapes, NumelRefusesNegativeExtentsAndOverflow) {
  EXPECT_EQ(numel_of({}), 1);
  EXPECT_EQ(numel_of({2, 0, 3}), 0);
  EXPECT_THROW(numel_of({2, -1}), InvalidArgumentError);
  EXPECT_THROW(numel_of({std::int64_t{1} << 40, std::int64_t{1} << 40}), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd
