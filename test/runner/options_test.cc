#include "runner/plan/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/base/status.h"
#include "runner/plan/option_table.h"

namespace hvd::runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Words = std::vector<std::string>;

// The value of a variable that an option set, or "unset".
std::string setting(const Options& options, const std::string& name) {
  const auto it = options.settings.find(name);
  return it == options.settings.end() ? "unset" : it->second.value;
}

// `words` before -np 1 x.
Options with(Words words) {
  for (const char* word : {"-np", "1", "x"}) words.emplace_back(word);
  return parse_options(words);
}

std::string refusal(const Words& words, const Environment& environment = {}) {
  try {
    parse_options(words, environment);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ParseOptions, SplitsAtTheProgramAndLeavesItsOptionsAlone) {
  const Options options = parse_options(
      Words{"-np", "2", "python", "train.py", "-np", "7", "--verbose", "-H", "x", "--", "--help"});
  EXPECT_EQ(options.np, 2);
  EXPECT_FALSE(options.verbose);
  EXPECT_FALSE(options.help);
  EXPECT_TRUE(options.hosts.empty());
  EXPECT_THAT(options.command, ElementsAre("python", "train.py", "-np", "7", "--verbose", "-H", "x",
                                           "--", "--help"));
}

TEST(ParseOptions, TakesEveryOption) {
  const Options options =
      parse_options(Words{"--verbose", "-H", "a:1,b:2", "--timeline-filename", "t.json",
                          "--fusion-threshold-mb", "0.5", "-np", "3", "./x"});
  EXPECT_EQ(options.np, 3);
  EXPECT_THAT(options.hosts, ElementsAre(HostSlots{"a", 1}, HostSlots{"b", 2}));
  EXPECT_EQ(setting(options, "HOROVOD_TIMELINE"), "t.json");
  EXPECT_EQ(setting(options, "HOROVOD_FUSION_THRESHOLD"), "524288");
  EXPECT_TRUE(options.verbose);
}

class SpellingsOfNp : public testing::TestWithParam<Words> {};

TEST_P(SpellingsOfNp, MeanTheSame) {
  Words words = GetParam();
  words.push_back("./x");
  EXPECT_EQ(parse_options(words).np, 12);
}

INSTANTIATE_TEST_SUITE_P(Each, SpellingsOfNp,
                         testing::Values(Words{"-np", "12"}, Words{"--np", "12"}, Words{"-np=12"},
                                         Words{"--np=12"}, Words{"-n", "12"}, Words{"-n12"},
                                         Words{"-np12"}, Words{"-num-proc12"}));

TEST(ParseOptions, TakesALetterAndItsValueInOneWord) {
  const Options options = parse_options(Words{"-Hnode1:2,b:1", "-p22", "-n3", "./x", "-n4"});
  EXPECT_THAT(options.hosts, ElementsAre(HostSlots{"node1", 2}, HostSlots{"b", 1}));
  EXPECT_EQ(options.ssh_port, 22);
  EXPECT_EQ(options.np, 3);
  EXPECT_THAT(refusal({"-n2", "-np", "2", "x"}), HasSubstr("-np: contradicts -n,"));
}

TEST(ParseOptions, TakesSingleDashForLongNames) {
  const Options options = parse_options(Words{"-hosts", "a:1", "-verbose", "-np", "1", "./x"});
  EXPECT_THAT(options.hosts, ElementsAre(HostSlots{"a", 1}));
  EXPECT_TRUE(options.verbose);
}

TEST(ParseOptions, EndsItsOptionsAtTwoDashes) {
  EXPECT_THAT(parse_options(Words{"-np", "1", "--", "-odd", "--"}).command,
              ElementsAre("-odd", "--"));
}

TEST(ParseOptions, TakesASingleDashAndArgumentsWithBlanksAsTheProgramsOwn) {
  EXPECT_THAT(parse_options(Words{"-np", "1", "-", "a b", ""}).command,
              ElementsAre("-", "a b", ""));
}

TEST(ParseOptions, SetsNothingUnlessAsked) {
  EXPECT_TRUE(with({}).settings.empty());
  EXPECT_TRUE(with({}).warnings.empty());
  EXPECT_EQ(setting(with({"--fusion-threshold-mb", "0"}), "HOROVOD_FUSION_THRESHOLD"), "0");
}

struct SettingCase {
  const char* name;
  Words words;
  const char* variable;
  const char* value;
};

class SettingOption : public testing::TestWithParam<SettingCase> {};

TEST_P(SettingOption, SetsItsVariableAndSaysWhereItCameFrom) {
  const Options options = with(GetParam().words);
  EXPECT_EQ(setting(options, GetParam().variable), GetParam().value);
  EXPECT_EQ(options.settings.begin()->second.source, "hvdrun " + GetParam().words[0]);
  EXPECT_EQ(options.settings.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Each, SettingOption,
    testing::Values(
        SettingCase{"Cycle", {"--cycle-time-ms", "1.5"}, "HOROVOD_CYCLE_TIME", "1.5"},
        SettingCase{"Cache", {"--cache-capacity", "0"}, "HOROVOD_CACHE_CAPACITY", "0"},
        SettingCase{"Deterministic", {"--deterministic"}, "HOROVOD_DETERMINISTIC", "1"},
        SettingCase{"Autotune", {"--autotune"}, "HOROVOD_AUTOTUNE", "1"},
        SettingCase{"NoAutotune", {"--no-autotune"}, "HOROVOD_AUTOTUNE", "0"},
        SettingCase{"Log", {"--autotune-log-file", "a.csv"}, "HOROVOD_AUTOTUNE_LOG", "a.csv"},
        SettingCase{
            "Warmup", {"--autotune-warmup-samples", "1"}, "HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "1"},
        SettingCase{"Steps",
                    {"--autotune-steps-per-sample", "2"},
                    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE",
                    "2"},
        SettingCase{"Points",
                    {"--autotune-bayes-opt-max-samples", "3"},
                    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES",
                    "3"},
        SettingCase{"Noise",
                    {"--autotune-gaussian-process-noise", "0.5"},
                    "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
                    "0.5"},
        SettingCase{"Marks", {"--timeline-mark-cycles"}, "HOROVOD_TIMELINE_MARK_CYCLES", "1"},
        SettingCase{"NoMarks", {"--no-timeline-mark-cycles"}, "HOROVOD_TIMELINE_MARK_CYCLES", "0"},
        SettingCase{"StallCheck", {"--stall-check"}, "HOROVOD_STALL_CHECK_DISABLE", "0"},
        SettingCase{"NoStallCheck", {"--no-stall-check"}, "HOROVOD_STALL_CHECK_DISABLE", "1"},
        SettingCase{"StallWarning",
                    {"--stall-check-warning-time-seconds", "5"},
                    "HOROVOD_STALL_CHECK_TIME_SECONDS",
                    "5"},
        SettingCase{"StallLimit",
                    {"--stall-check-shutdown-time-seconds", "9"},
                    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                    "9"},
        SettingCase{"LogLevel", {"--log-level", "TRACE"}, "HOROVOD_LOG_LEVEL", "TRACE"},
        SettingCase{"LogTime", {"--log-with-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "0"},
        SettingCase{"LogNoTime", {"--log-without-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "1"},
        SettingCase{"LogOldName", {"--log-hide-timestamp"}, "HOROVOD_LOG_HIDE_TIME", "1"},
        SettingCase{"Affinity", {"--thread-affinity", "3,4"}, "HOROVOD_THREAD_AFFINITY", "3,4"},
        SettingCase{"Threads", {"--mpi-threads-disable"}, "HOROVOD_MPI_THREADS_DISABLE", "1"},
        SettingCase{"StartTimeout", {"--start-timeout", "7"}, "HOROVOD_START_TIMEOUT", "7"},
        SettingCase{"Stats", {"--stats"}, "HVD_STATS", "1"},
        SettingCase{"CheckNan", {"--check-nan"}, "HVD_CHECK_NAN", "1"},
        SettingCase{
            "Hierarchical", {"--hierarchical-allreduce"}, "HOROVOD_HIERARCHICAL_ALLREDUCE", "1"},
        SettingCase{"NotHierarchical",
                    {"--no-hierarchical-allgather"},
                    "HOROVOD_HIERARCHICAL_ALLGATHER",
                    "0"},
        SettingCase{
            "ControllerCalledAsAnOptionIs", {"--controller", "mpi"}, "HOROVOD_CONTROLLER", "mpi"},
        SettingCase{"Mpi", {"--mpi"}, "HOROVOD_CONTROLLER", "mpi"},
        SettingCase{"Gloo", {"--gloo"}, "HOROVOD_CONTROLLER", "gloo"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(ParseOptions, TakesHvdrunsOwnOptionsUnderHorovodsNames) {
  const Options options =
      with({"--output-filename", "out", "-prefix-timestamp", "--network-interfaces", "eth0,eth1",
            "--network-interface", "ib0", "-p=2222", "-i", "key", "--mpi-args", "--mca a 'b c'",
            "--binding-args=--bind-to core"});
  EXPECT_EQ(options.output_folder, "out");
  EXPECT_TRUE(options.timestamps);
  EXPECT_EQ(setting(options, "HOROVOD_GLOO_IFACE"), "eth0,eth1,ib0");
  EXPECT_EQ(options.settings.at("HOROVOD_GLOO_IFACE").source, "hvdrun --network-interfaces");
  EXPECT_EQ(options.ssh_port, 2222);
  EXPECT_EQ(options.ssh_identity, "key");
  EXPECT_THAT(options.mpi_args, ElementsAre("--mca", "a", "b c"));
  EXPECT_THAT(options.binding_args, ElementsAre("--bind-to", "core"));
}

TEST(ParseOptions, TakesValuesThatAreWrittenAsOptions) {
  EXPECT_THAT(with({"--mpi-args", "-v"}).mpi_args, ElementsAre("-v"));
  EXPECT_EQ(with({"--output-filename", "--verbose"}).output_folder, "--verbose");
}

TEST(ParseOptions, WarnsOfOptionsThatDoNothing) {
  const Options options = with({"--num-nccl-streams", "2", "--tcp", "--no-torus-allreduce"});
  ASSERT_EQ(options.warnings.size(), 2u);
  EXPECT_THAT(options.warnings[0], HasSubstr("--num-nccl-streams does nothing: it is for NCCL"));
  EXPECT_THAT(options.warnings[1], HasSubstr("--tcp"));
  EXPECT_THAT(options.command, ElementsAre("x"));
}

// GAP-45: --jsrun of Horovod ends in a ValueError about unpacking.
TEST(ParseOptions, RefusesWhatItCannotDoAndSaysWhy) {
  EXPECT_THAT(refusal({"--jsrun", "-np", "1", "x"}), HasSubstr("--jsrun: there is no support"));
  EXPECT_THAT(refusal({"--min-np", "1", "-np", "2", "x"}), HasSubstr("--min-np: "));
  EXPECT_THAT(refusal({"--blacklist-cooldown-range", "1", "2", "-np", "2", "x"}),
              HasSubstr("no elastic training"));
}

// GAP-49: the engine wants a core for each rank of a machine.
TEST(ParseOptions, ThreadAffinityNeedsACoreForEachRankOfAMachine) {
  EXPECT_THAT(refusal({"-np", "2", "--thread-affinity", "4", "x"}),
              HasSubstr("--thread-affinity 4: 1 cores, but a machine has 2 ranks"));
  EXPECT_EQ(refusal({"-np", "2", "--thread-affinity", "4,5", "x"}), "accepted");
  EXPECT_EQ(refusal({"-np", "2", "-H", "a:1,b:1", "--thread-affinity", "4", "x"}), "accepted");
  EXPECT_THAT(refusal({"-np", "4", "-H", "a:1,b:5", "--thread-affinity", "4,5", "x"}),
              HasSubstr("3 ranks"));
}

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "options_test_" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(ConfigFile, SetsWhatTheCommandLineLeavesOpen) {
  const std::string path = write_file("good.yaml", R"(# a job
params:
  fusion_threshold_mb: 2
  cycle_time_ms: 1.5
  hierarchical_allreduce: false
autotune:
  enabled: true
  log_file: tune.csv
timeline: {filename: t.json, mark_cycles: no}
stall_check:
  enabled: false
library_options:
  thread_affinity: [3]
  mpi_args: --mca x 1
logging:
  level: DEBUG
  with_timestamp: false
controller: mpi
)");
  const Options options = with({"--config-file", path, "--cycle-time-ms", "4", "--stall-check"});
  EXPECT_EQ(setting(options, "HOROVOD_FUSION_THRESHOLD"), "2097152");
  EXPECT_EQ(options.settings.at("HOROVOD_FUSION_THRESHOLD").source, path + ":3");
  EXPECT_EQ(setting(options, "HOROVOD_CYCLE_TIME"), "4");
  EXPECT_EQ(setting(options, "HOROVOD_AUTOTUNE"), "1");
  EXPECT_EQ(setting(options, "HOROVOD_AUTOTUNE_LOG"), "tune.csv");
  EXPECT_EQ(setting(options, "HOROVOD_TIMELINE"), "t.json");
  EXPECT_EQ(setting(options, "HOROVOD_TIMELINE_MARK_CYCLES"), "0");
  EXPECT_EQ(setting(options, "HOROVOD_STALL_CHECK_DISABLE"), "0") << "the command line wins";
  EXPECT_EQ(setting(options, "HOROVOD_THREAD_AFFINITY"), "3");
  EXPECT_EQ(setting(options, "HOROVOD_LOG_LEVEL"), "DEBUG");
  EXPECT_EQ(setting(options, "HOROVOD_LOG_HIDE_TIME"), "1");
  EXPECT_EQ(setting(options, "HOROVOD_CONTROLLER"), "mpi");
  EXPECT_THAT(options.mpi_args, ElementsAre("--mca", "x", "1"));
  EXPECT_TRUE(options.warnings.empty());
}

TEST(ConfigFile, DisabledStallChecksAndEnabledFeaturesWithoutMeaning) {
  const std::string path = write_file("stall.yaml",
                                      "stall_check:\n  enabled: no\n"
                                      "params:\n  torus_allreduce: yes\n"
                                      "  hierarchical_allreduce: no\n"
                                      "  deterministic: false\n");
  const Options options = with({"--config-file", path});
  EXPECT_EQ(setting(options, "HOROVOD_STALL_CHECK_DISABLE"), "1");
  EXPECT_EQ(setting(options, "HOROVOD_DETERMINISTIC"), "unset");
  ASSERT_EQ(options.warnings.size(), 1u);
  EXPECT_THAT(options.warnings[0], HasSubstr(path + ":4: params.torus_allreduce does"));
  EXPECT_EQ(setting(options, "HOROVOD_HIERARCHICAL_ALLREDUCE"), "0");
}

struct BadFile {
  const char* name;
  const char* text;
  const char* says;
};

class BadConfigFile : public testing::TestWithParam<BadFile> {};

TEST_P(BadConfigFile, IsRefusedNamingTheLine) {
  const std::string path = write_file(GetParam().name, GetParam().text);
  EXPECT_THAT(refusal({"--config-file", path, "-np", "1", "x"}), HasSubstr(path + GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadConfigFile,
    testing::Values(
        BadFile{"UnknownKey", "params:\n  cycle_time: 1\n", ":2: unknown key params.cycle_time"},
        BadFile{"UnknownSection", "autotunes:\n  enabled: 1\n", ":2: unknown key autotunes."},
        BadFile{"BadNumber", "\nparams:\n  cycle_time_ms: soon\n",
                ":3: params.cycle_time_ms='soon'"},
        BadFile{"BadMib", "params:\n  fusion_threshold_mb: -1\n", ":2: params.fusion_threshold_mb"},
        BadFile{"BadFlag", "autotune:\n  enabled: 7\n", ":2: autotune.enabled: '7'"},
        BadFile{"EmptyFlag", "stall_check:\n  enabled: ''\n", ":2: stall_check.enabled: ''"},
        BadFile{"NoValue", "params:\n  cycle_time_ms:\n", ":2: params.cycle_time_ms: has no value"},
        BadFile{"Twice", "controller: mpi\ncontroller: gloo\n", ":2: controller: was already"},
        BadFile{"NoMap", "- a\n- b\n", ":1: expected 'key: value' lines"},
        BadFile{"Nested", "params:\n  cycle_time_ms: [[1]]\n",
                ":2: params.cycle_time_ms: expected a"},
        BadFile{"InItself", "a: &x\n  b: *x\n", ":1: unknown key a.b.b."},
        BadFile{"NoYaml", "params: {\n  a: b\n", ":"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(ConfigFile, MustBeThere) {
  for (const std::string unreadable : {"/no/such", "/tmp"}) {
    EXPECT_THAT(refusal({"--config-file", unreadable, "-np", "1", "x"}),
                HasSubstr("--config-file: cannot read '" + unreadable + "'"));
  }
}

TEST(ConfigFile, MayHaveSeveralDocuments) {
  const std::string path = write_file("all.yaml", "controller: mpi\n---\nlogging: {level: info}\n");
  EXPECT_EQ(with({"--config-file", path}).settings.size(), 2u);
}

TEST(ConfigFile, MayBeEmpty) {
  EXPECT_TRUE(with({"--config-file", write_file("empty.yaml", "# nothing\n")}).settings.empty());
}

TEST(Hostfile, NamesMachinesAndSlots) {
  const std::string path = write_file("hosts", "# mine\nnode1 slots=2\n\nnode2  # one\nnode3:4\n");
  const Options options = parse_options(Words{"-hostfile", path, "-np", "7", "x"});
  EXPECT_THAT(options.hosts,
              ElementsAre(HostSlots{"node1", 2}, HostSlots{"node2", 1}, HostSlots{"node3", 4}));
  EXPECT_THAT(refusal({"--hostfile", path, "-H", "a:1", "-np", "1", "x"}),
              HasSubstr("-H and --hostfile"));
}

TEST(Hostfile, IsRefusedNamingTheLine) {
  const auto says = [](const std::string& text) {
    return refusal({"--hostfile", write_file("bad_hosts", text), "-np", "1", "x"});
  };
  EXPECT_THAT(says("a\nb slots=0\n"), HasSubstr("bad_hosts:2: 'slots=0'"));
  EXPECT_THAT(says("a slots=2x\n"), HasSubstr("bad_hosts:1: 'slots=2x'"));
  EXPECT_THAT(says("a\n-oX slots=2\n"), HasSubstr("bad_hosts:2: '-oX': a host name does not"));
  EXPECT_THAT(says("a:2x\n"), HasSubstr("bad_hosts:1: 'a:2x'"));
  EXPECT_THAT(says("a:2 slots=2\n"), HasSubstr("bad_hosts:1: 'slots=2': slots are given twice"));
  EXPECT_THAT(says("a gpus=2\n"), HasSubstr("bad_hosts:1: 'gpus=2'"));
  EXPECT_THAT(says("a\nb\na\n"), HasSubstr("bad_hosts:3: 'a': this host is given twice"));
  EXPECT_THAT(says("# nobody\n"), HasSubstr("names no host"));
  for (const char* unreadable : {"/no/such", "/tmp"}) {
    EXPECT_THAT(refusal({"--hostfile", unreadable, "-np", "1", "x"}), HasSubstr(unreadable));
  }
}

Environment in_slurm() {
  return {{"SLURM_JOB_ID", "17"},
          {"SLURM_JOB_NODELIST", "n[01-02],m1"},
          {"SLURM_TASKS_PER_NODE", "2(x2),1"},
          {"SLURM_NTASKS", "5"}};
}

TEST(Slurm, GivesRanksAndMachines) {
  const Options options = parse_options(Words{"python", "train.py"}, in_slurm());
  EXPECT_EQ(options.np, 5);
  EXPECT_THAT(options.hosts,
              ElementsAre(HostSlots{"n01", 2}, HostSlots{"n02", 2}, HostSlots{"m1", 1}));
}

TEST(Slurm, IsOverruledByTheCommandLine) {
  EXPECT_EQ(parse_options(Words{"-np", "3", "x"}, in_slurm()).np, 3);
  EXPECT_THAT(parse_options(Words{"-np", "1", "-H", "a:1", "x"}, in_slurm()).hosts,
              ElementsAre(HostSlots{"a", 1}));
  EXPECT_THAT(refusal({"-np", "6", "x"}, in_slurm()),
              HasSubstr("-np 6: more ranks than this Slurm job has tasks (5, on n01:2,"));
}

TEST(Slurm, StartsAgentsByItself) {
  EXPECT_EQ(parse_options(Words{"x"}, in_slurm()).launcher, "slurm");
  EXPECT_EQ(parse_options(Words{"--launcher", "ssh", "x"}, in_slurm()).launcher, "ssh");
  EXPECT_EQ(parse_options(Words{"-np", "1", "-H", "a:1", "x"}, in_slurm()).launcher, "");
}

TEST(Slurm, NeedsANumberOfRanksWhereNoTasksWereAskedFor) {
  Environment environment = in_slurm();
  environment.erase("SLURM_NTASKS");
  EXPECT_THAT(refusal({"x"}, environment), HasSubstr("-np: missing"));
}

TEST(TorchrunsWords, GiveRanksPlaceAndMeetingPoint) {
  const Options one =
      parse_options(Words{"--standalone", "--nproc-per-node", "3", "x"}, in_slurm());
  EXPECT_EQ(one.np, 3);
  EXPECT_TRUE(one.hosts.empty());
  const Options two = parse_options(Words{"--nnodes=2", "--node_rank=1", "--nproc_per_node=4",
                                          "--rdzv-endpoint", "[fd00::1]:29500", "x"});
  EXPECT_EQ(two.np, 8);
  EXPECT_EQ(two.manual.node_rank, 1);
  EXPECT_EQ(two.manual.host, "fd00::1");
  EXPECT_EQ(two.manual.port, 29500);
  EXPECT_EQ(parse_options(Words{"--nnodes", "1", "--rdzv-endpoint", "a", "x"}).manual.port, 29400);
  EXPECT_THAT(refusal({"--nnodes", "2", "x"}), HasSubstr("needs --rdzv-endpoint"));
  EXPECT_THAT(refusal({"--nnodes", "2", "--rdzv-endpoint", "a", "x"}),
              HasSubstr("needs --node-rank, 0 to 1"));
  EXPECT_THAT(refusal({"--nnodes", "2", "--standalone", "x"}), HasSubstr("--standalone"));
  EXPECT_THAT(refusal({"--nnodes", "2", "-np", "4", "x"}), HasSubstr("give one or the other"));
  EXPECT_THAT(refusal({"--rdzv-endpoint", "a:b", "x"}), HasSubstr("expected HOST:PORT"));
}

TEST(ParseOptions, NeedsNoProgramToTellAboutItself) {
  EXPECT_TRUE(parse_options(Words{"--help"}).help);
  EXPECT_TRUE(parse_options(Words{"-h"}).help);
  EXPECT_TRUE(parse_options(Words{"--help-all"}).help_all);
  EXPECT_TRUE(parse_options(Words{"--version"}).version);
  EXPECT_TRUE(parse_options(Words{"--check-build"}).check_build);
}

TEST(ParseOptions, AllowsAsManyRanksAsThereAreSlots) {
  EXPECT_EQ(parse_options(Words{"-np", "3", "-H", "a:1,b:2", "x"}).np, 3);
}

struct BadCase {
  const char* name;
  Words words;
  const char* says;
};

class BadCommandLine : public testing::TestWithParam<BadCase> {};

TEST_P(BadCommandLine, IsRefusedNamingTheOption) {
  try {
    parse_options(GetParam().words);
    FAIL() << "accepted";
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadCommandLine,
    testing::Values(
        BadCase{"NpZero", {"-np", "0", "x"}, "-np: '0'"},
        BadCase{"NpNegative", {"-np", "-1", "x"}, "-np: '-1'"},
        BadCase{"NpNotANumber", {"-np", "x", "y"}, "-np: 'x'"},
        BadCase{"NpFraction", {"-np", "2.5", "y"}, "-np: '2.5'"},
        BadCase{"NpHuge", {"-np", "99999999999999", "y"}, "-np: '99999999999999'"},
        BadCase{"NpWithoutValue", {"-np"}, "argument for option '--np' is missing"},
        BadCase{"NpEmpty", {"-np", "", "x"}, "-np: the value is empty"},
        BadCase{"NpMissing", {"x"}, "-np: missing"},
        BadCase{"NpTwice", {"-np", "1", "-np", "2", "x"}, "np"},
        BadCase{"Nothing", {}, "-np: missing"},
        BadCase{"ProgramMissing", {"-np", "2"}, "no program given"},
        BadCase{"ProgramMissingAfterDashes", {"-np", "2", "--"}, "no program given"},
        BadCase{"ProgramEmpty", {"-np", "2", ""}, "program's name is empty"},
        BadCase{"HostsWithoutSlots", {"-H", "h:0", "-np", "1", "x"}, "-H: 'h:0'"},
        BadCase{"MoreRanksThanSlots", {"-np", "4", "-H", "a:1,b:2", "x"}, "-np 4: more ranks"},
        BadCase{"UnknownLong", {"--foo", "-np", "2", "x"}, "unknown option --foo (hvdrun --help"},
        BadCase{"Misspelt",
                {"--fusion-treshold-mb", "2", "-np", "2", "x"},
                "--fusion-treshold-mb; did you mean --fusion-threshold-mb?"},
        BadCase{"BeginningOfALongName",
                {"--timeline", "t.json", "-np", "2", "x"},
                "unknown option --timeline; did you mean --timeline-filename?"},
        BadCase{"MpirunsVariables",
                {"-x", "FOO=1", "-np", "2", "x"},
                "-x: it is mpirun's; the variables of this shell reach the ranks"},
        BadCase{"NpMissingBeforeArguments",
                {"python", "m.py", "a b"},
                "such as hvdrun -np 2 python m.py 'a b'"},
        BadCase{"NpJoinedToAWord", {"-nproc", "2", "x"}, "unknown option -nproc"},
        BadCase{"NoTimeToStart",
                {"--start-timeout", "0", "-np", "1", "x"},
                "--start-timeout='0': expected seconds, more than 0"},
        BadCase{"HostThatIsAnOption", {"-H", "-oProxyCommand=x:1", "-np", "1", "x"}, "-H: '-o"},
        BadCase{"UnknownShort", {"-q", "-np", "2", "x"}, "unknown option -q"},
        BadCase{"NoName", {"--=5", "-np", "2", "x"}, "unknown option -- ("},
        BadCase{"NumberOnly", {"-5", "-np", "2", "x"}, "unknown option -5 ("},
        BadCase{"AbbreviationOfALongName", {"--verb", "-np", "2", "x"}, "unknown option --verb"},
        BadCase{"ShortNameWithTwoDashes", {"--H", "a:1", "-np", "1", "x"}, "unknown option --H"},
        BadCase{"FlagWithValue",
                {"--verbose=1", "-np", "2", "x"},
                "option '--verbose' does not take any arguments"},
        BadCase{"FusionNegative",
                {"--fusion-threshold-mb", "-1", "-np", "1", "x"},
                "--fusion-threshold-mb: '-1'"},
        BadCase{"FusionNan",
                {"--fusion-threshold-mb", "nan", "-np", "1", "x"},
                "--fusion-threshold-mb: 'nan'"},
        BadCase{"FusionNotANumber",
                {"--fusion-threshold-mb", "64MB", "-np", "1", "x"},
                "--fusion-threshold-mb: '64MB'"},
        BadCase{
            "CycleNegative", {"--cycle-time-ms", "-1", "-np", "1", "x"}, "--cycle-time-ms='-1'"},
        BadCase{"CacheTuple",
                {"--cache-capacity", "(None,)", "-np", "1", "x"},
                "--cache-capacity='(None,)': expected a whole number"},
        BadCase{"NoiseAboveOne",
                {"--autotune-gaussian-process-noise", "2", "-np", "1", "x"},
                "--autotune-gaussian-process-noise='2': expected a number from 0 to 1"},
        BadCase{"ByHandWithoutAKey", {"--launcher", "none", "-np", "1", "x"}, "needs --key-file"},
        BadCase{"PortZero", {"-p", "0", "-np", "1", "x"}, "-p: '0': expected a port"},
        BadCase{"OpenQuote", {"--mpi-args", "'a", "-np", "1", "x"}, "--mpi-args: ''a'"},
        BadCase{"BothWays",
                {"--autotune", "--no-autotune", "-np", "1", "x"},
                "--no-autotune: contradicts --autotune"},
        BadCase{
            "TwoControllers", {"--gloo", "--mpi", "-np", "1", "x"}, "--mpi: contradicts --gloo"},
        BadCase{"TimelineEmpty", {"--timeline-filename=", "-np", "1", "x"}, "--timeline-filename"}),
    [](const auto& each) { return std::string(each.param.name); });

// Every option of horovodrun 0.28.1.
TEST(OptionTable, KnowsEveryOptionOfHorovodrun) {
  std::istringstream names(
      "-v --version -np --num-proc -cb --check-build --disable-cache --start-timeout "
      "--network-interfaces --network-interface --output-filename --verbose --config-file -p "
      "--ssh-port -i --ssh-identity-file --fusion-threshold-mb --cycle-time-ms --cache-capacity "
      "--hierarchical-allreduce --no-hierarchical-allreduce --hierarchical-allgather "
      "--no-hierarchical-allgather --torus-allreduce --no-torus-allreduce --autotune "
      "--no-autotune --autotune-log-file --autotune-warmup-samples --autotune-steps-per-sample "
      "--autotune-bayes-opt-max-samples --autotune-gaussian-process-noise --min-np "
      "--min-num-proc --max-np --max-num-proc --slots-per-host --elastic-timeout --reset-limit "
      "--blacklist-cooldown-range --host-discovery-script --timeline-filename "
      "--timeline-mark-cycles --no-timeline-mark-cycles --no-stall-check --stall-check "
      "--stall-check-warning-time-seconds --stall-check-shutdown-time-seconds "
      "--mpi-threads-disable --no-mpi-threads-disable --mpi-args --tcp --binding-args "
      "--num-nccl-streams --thread-affinity --gloo-timeout-seconds --log-level "
      "--log-with-timestamp --log-without-timestamp -prefix-timestamp "
      "--prefix-output-with-timestamp --log-hide-timestamp --no-log-hide-timestamp -H --hosts "
      "-hostfile --hostfile --gloo --mpi --jsrun");
  for (std::string name; names >> name;) {
    EXPECT_THAT(refusal({name}), testing::Not(HasSubstr("unknown option"))) << name;
  }
}

TEST(SplitWords, WorksAsAShellDoes) {
  EXPECT_THAT(split_words("  a  \"b c\" 'd \"e' f\\ g '' ", "-x"),
              ElementsAre("a", "b c", "d \"e", "f g", ""));
  EXPECT_TRUE(split_words(" ", "-x").empty());
}

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(HelpText, IsShortAndGivesEachOptionALine) {
  const std::string text = help_text(false);
  std::size_t options = 0;
  for (const OptionRow& row : option_table()) {
    if (!row.group.common) continue;
    EXPECT_THAT(text, HasSubstr("--" + row.names.substr(0, row.names.find(','))));
    EXPECT_THAT(text, HasSubstr(" " + row.text + "\n"));
    ++options;
  }
  EXPECT_LE(options, 25u);
  EXPECT_LE(lines_of(text).size(), 40u);
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_THAT(text, HasSubstr("hvdrun -np 2 python train.py"));
  EXPECT_THAT(text, HasSubstr("--help-all"));
}

TEST(HelpText, NamesEveryOptionAndVariableAndShowsExamples) {
  const std::string text = help_text(true);
  for (const OptionRow& row : option_table()) {
    EXPECT_THAT(text, HasSubstr("--" + row.names.substr(0, row.names.find(','))));
    if (const auto* variable = std::get_if<const char*>(&row.target)) {
      EXPECT_THAT(text, HasSubstr(" " + std::string(*variable) + ": "));
    }
  }
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_THAT(text, HasSubstr("salloc"));
  EXPECT_THAT(text, HasSubstr("srun"));
  EXPECT_THAT(text, HasSubstr("hvdrun -np 2 python train.py"));
}

}  // namespace
}  // namespace hvd::runner
