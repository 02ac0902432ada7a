#include "runner/option_table.h"

#include <algorithm>
#include <array>

namespace hvd::runner {
namespace {

constexpr OptionRow own(std::string_view names, char letter, std::string_view value,
                        std::string_view text, std::string_view key = "") {
  return {.names = names, .letter = letter, .value = value, .key = key, .text = text};
}

constexpr OptionRow sets(std::string_view setting, std::string_view names, std::string_view value,
                         std::string_view key, std::string_view text) {
  return {.effect = Effect::kSetting,
          .names = names,
          .value = value,
          .key = key,
          .setting = setting,
          .text = text};
}

constexpr OptionRow turns(std::string_view setting, std::string_view gives, std::string_view names,
                          std::string_view key, std::string_view text) {
  return {.effect = Effect::kSetting,
          .names = names,
          .key = key,
          .setting = setting,
          .gives = gives,
          .text = text};
}

constexpr OptionRow does_nothing(std::string_view names, std::string_view value,
                                 std::string_view key, std::string_view why) {
  return {.effect = Effect::kIgnored, .names = names, .value = value, .key = key, .text = why};
}

constexpr OptionRow refused(std::string_view names, std::string_view value, std::string_view why,
                            int values = 1) {
  return {
      .effect = Effect::kRefused, .names = names, .value = value, .text = why, .values = values};
}

constexpr OptionRow with_mib(OptionRow row) {
  row.in_mib = true;
  return row;
}

constexpr OptionRow repeated(OptionRow row) {
  row.repeatable = true;
  return row;
}

// Of the help text, in characters.
constexpr std::size_t kWidth = 100;
constexpr std::size_t kTextColumn = 44;

constexpr std::string_view kElastic = "there is no elastic training yet";

constexpr std::array kOptions = {
    own("np,num-proc", 'n', "N",
        "ranks (processes) to start; -np N is the same; default in a Slurm job: its tasks"),
    own("hosts", 'H', "HOST:SLOTS,...",
        "machines to use and how many ranks each may hold; default: those of a Slurm job, else "
        "this machine"),
    own("hostfile", 0, "FILE", "the same from a file with lines such as 'node1 slots=4'"),
    own("config-file", 0, "YAML", "options from a file; those of the command line win"),
    own("verbose", 0, "", "print the mpirun command and its own messages"),
    own("output-filename", 0, "DIR",
        "write each rank's output to DIR/rank.N/stdout and stderr too"),
    own("prefix-output-with-timestamp,prefix-timestamp", 0, "", "the time before each line"),
    sets("HOROVOD_START_TIMEOUT", "start-timeout", "SECONDS", "",
         "give up when a rank has not started by then"),
    own("network-interfaces", 0, "A,B", "the network interfaces that MPI and the engine use"),
    repeated(own("network-interface", 0, "A", "one of them; may be repeated")),
    own("ssh-port", 'p', "PORT", "port of the other machines' ssh servers"),
    own("ssh-identity-file", 'i', "FILE", "private key for ssh"),
    own("mpi-args", 0, "\"ARGS\"", "further words for mpirun", "library_options.mpi_args"),
    own("binding-args", 0, "\"ARGS\"", "for mpirun in place of --bind-to none",
        "library_options.binding_args"),
    own("check-build,cb", 0, "", "print what this build has and can use here"),
    own("help-settings", 0, "", "print every setting, its value here and where it came from"),
    own("version", 'v', "", "print the version"),
    own("help", 'h', "", "print this text"),

    with_mib(sets("HOROVOD_FUSION_THRESHOLD", "fusion-threshold-mb", "MIB",
                  "params.fusion_threshold_mb",
                  "fuse tensors up to this many MiB in one transfer; 0 turns fusion off")),
    sets("HOROVOD_CYCLE_TIME", "cycle-time-ms", "MS", "params.cycle_time_ms",
         "least time between two transfers"),
    sets("HOROVOD_CACHE_CAPACITY", "cache-capacity", "N", "params.cache_capacity",
         "tensors whose negotiation is remembered"),
    turns("HOROVOD_DETERMINISTIC", "1", "deterministic", "params.deterministic",
          "bitwise equal runs"),
    turns("HOROVOD_AUTOTUNE", "1", "autotune", "autotune.enabled",
          "search for the best fusion threshold and cycle time while training"),
    turns("HOROVOD_AUTOTUNE", "0", "no-autotune", "autotune.enabled", "do not"),
    sets("HOROVOD_AUTOTUNE_LOG", "autotune-log-file", "FILE", "autotune.log_file",
         "what autotune tried, as CSV"),
    sets("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "autotune-warmup-samples", "N",
         "autotune.warmup_samples", "samples to discard at the start"),
    sets("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "autotune-steps-per-sample", "N",
         "autotune.steps_per_sample", "repetitions of a tensor that make a sample"),
    sets("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "autotune-bayes-opt-max-samples", "N",
         "autotune.bayes_opt_max_samples", "most settings to try"),
    sets("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "autotune-gaussian-process-noise", "0..1",
         "autotune.gaussian_process_noise", "accepted without effect"),
    sets("HOROVOD_TIMELINE", "timeline-filename", "FILE", "timeline.filename",
         "write a trace of the collectives that Perfetto opens"),
    turns("HOROVOD_TIMELINE_MARK_CYCLES", "1", "timeline-mark-cycles", "timeline.mark_cycles",
          "mark each decision of rank 0 in it"),
    turns("HOROVOD_TIMELINE_MARK_CYCLES", "0", "no-timeline-mark-cycles", "timeline.mark_cycles",
          "do not"),
    turns("HVD_STATS", "1", "stats", "", "one line of statistics at exit"),
    turns("HVD_CHECK_NAN", "1", "check-nan", "",
          "fail where a rank gives a NaN or infinity to be summed, naming rank and tensor"),
    turns("HOROVOD_STALL_CHECK_DISABLE", "0", "stall-check", "stall_check.enabled",
          "report tensors that some ranks do not submit"),
    turns("HOROVOD_STALL_CHECK_DISABLE", "1", "no-stall-check", "stall_check.enabled", "do not"),
    sets("HOROVOD_STALL_CHECK_TIME_SECONDS", "stall-check-warning-time-seconds", "SECONDS",
         "stall_check.warning_time_seconds", "after how long"),
    sets("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "stall-check-shutdown-time-seconds", "SECONDS",
         "stall_check.shutdown_time_seconds", "give up on them; 0 = never"),
    sets("HOROVOD_LOG_LEVEL", "log-level", "LEVEL", "logging.level",
         "trace, debug, info, warning, error, fatal or off"),
    turns("HOROVOD_LOG_HIDE_TIME", "0", "log-with-timestamp,no-log-hide-timestamp",
          "logging.with_timestamp", "the time in the engine's own messages"),
    turns("HOROVOD_LOG_HIDE_TIME", "1", "log-without-timestamp,log-hide-timestamp",
          "logging.with_timestamp", "no time in them"),
    sets("HOROVOD_THREAD_AFFINITY", "thread-affinity", "CORE,...",
         "library_options.thread_affinity",
         "cores for the engine's threads, one for each rank of a machine"),
    turns("HOROVOD_MPI_THREADS_DISABLE", "1", "mpi-threads-disable",
          "library_options.mpi_threads_disable", "call MPI from one thread at a time"),
    turns("HOROVOD_MPI_THREADS_DISABLE", "0", "no-mpi-threads-disable",
          "library_options.mpi_threads_disable", "do not"),

    turns("HOROVOD_HIERARCHICAL_ALLREDUCE", "1", "hierarchical-allreduce",
          "params.hierarchical_allreduce",
          "on several machines, reduce inside each before between them (the default)"),
    turns("HOROVOD_HIERARCHICAL_ALLREDUCE", "0", "no-hierarchical-allreduce",
          "params.hierarchical_allreduce", "do not"),
    turns("HOROVOD_HIERARCHICAL_ALLGATHER", "1", "hierarchical-allgather",
          "params.hierarchical_allgather",
          "on several machines, send to each once and share it there (the default)"),
    turns("HOROVOD_HIERARCHICAL_ALLGATHER", "0", "no-hierarchical-allgather",
          "params.hierarchical_allgather", "do not"),

    sets("HOROVOD_CONTROLLER", "controller", "NAME", "controller",
         "auto, mpi, or gloo: without MPI, on this machine"),
    turns("HOROVOD_CONTROLLER", "mpi", "mpi", "", "the same as --controller mpi"),
    turns("HOROVOD_CONTROLLER", "gloo", "gloo", "", "the same as --controller gloo"),

    does_nothing("disable-cache", "", "", "hvdrun caches nothing"),
    does_nothing("torus-allreduce", "", "params.torus_allreduce", "it is an algorithm for NCCL"),
    does_nothing("no-torus-allreduce", "", "params.torus_allreduce", ""),
    does_nothing(
        "tcp", "", "library_options.tcp",
        "MPI chooses its transport; --mpi-args=\"--mca pml ob1 --mca btl tcp,self\" forces "
        "TCP"),
    does_nothing("num-nccl-streams", "N", "library_options.num_nccl_streams", "it is for NCCL"),
    does_nothing("gloo-timeout-seconds", "SECONDS", "library_options.gloo_timeout_seconds",
                 "there is no Gloo; --start-timeout limits the start"),
    refused("x", "NAME=VALUE",
            "it is mpirun's; the variables of this shell reach the ranks of this machine, and "
            "HOROVOD_* and HVD_* those of all: NAME=VALUE hvdrun ...; for the others there is "
            "--mpi-args=\"-x NAME=VALUE\""),
    refused("jsrun", "", "there is no support for LSF's jsrun; give -H and use ssh"),
    refused("min-np,min-num-proc", "N", kElastic),
    refused("max-np,max-num-proc", "N", kElastic),
    refused("slots-per-host", "N", kElastic),
    refused("elastic-timeout", "SECONDS", kElastic),
    refused("reset-limit", "N", kElastic),
    refused("blacklist-cooldown-range", "MIN MAX", kElastic, 2),
    refused("host-discovery-script", "FILE", kElastic),
};

// Appends the words of `text` in lines that begin at kTextColumn. Words stay whole.
void append_wrapped(std::string& out, std::string_view text) {
  std::size_t line_start = out.rfind('\n') + 1;  // npos + 1 is 0
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t column = out.size() - line_start;
    if (column > kTextColumn && column + 1 + word.size() > kWidth) {
      out += '\n';
      line_start = out.size();
    }
    if (out.size() - line_start < kTextColumn) {
      out.resize(line_start + kTextColumn, ' ');
    } else {
      out += ' ';
    }
    out += word;
  }
  out += '\n';
}

std::string describe(const OptionRow& row) {
  std::string line = row.letter == 0 ? "      " : std::string("  -") + row.letter + ", ";
  line += "--" + std::string(row.name());
  if (row.takes_value()) line += " " + std::string(row.value);
  if (line.size() + 2 > kTextColumn) line += "\n";
  std::string text(row.text);
  if (!row.setting.empty()) {
    const std::string value = row.takes_value() ? "" : "=" + std::string(row.gives);
    text += " (" + std::string(row.setting) + value + ")";
  }
  append_wrapped(line, text);
  return line;
}

}  // namespace

bool OptionRow::is_called(std::string_view word) const {
  std::string_view rest = names;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    if (one == word) return true;
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return false;
}

std::span<const OptionRow> option_table() {
  return kOptions;
}

const OptionRow* find_option(std::string_view written) {
  const bool two_dashes = written.starts_with("--");
  const std::string_view name = written.substr(two_dashes ? 2 : 1);
  for (const OptionRow& row : kOptions) {
    if (row.is_called(name)) return &row;
    if (!two_dashes && row.letter != 0 && name == std::string_view(&row.letter, 1)) return &row;
  }
  return nullptr;
}

std::optional<JoinedOption> split_joined_option(std::string_view written) {
  const std::size_t digits = written.find_last_not_of("0123456789") + 1;
  if (digits > 1 && digits < written.size()) {  // only a number can follow a name: -nproc is none
    const std::string_view option = written.substr(0, digits);
    const OptionRow* row = option.starts_with("--") ? nullptr : find_option(option);
    if (row != nullptr && (row->value == "N" || row->value == "PORT")) {
      return JoinedOption{row, option, written.substr(digits)};
    }
  }
  if (!written.starts_with("-H") || written.size() == 2) return std::nullopt;
  return JoinedOption{find_option("-H"), written.substr(0, 2), written.substr(2)};
}

const OptionRow* find_key(std::string_view key, bool on) {
  const OptionRow* found = nullptr;
  for (const OptionRow& row : kOptions) {
    if (row.key != key) continue;
    found = &row;
    if (on) break;  // the positive one comes first
  }
  return found;
}

std::vector<std::string> option_words() {
  std::vector<std::string> words;
  for (const OptionRow& row : kOptions) words.push_back("--" + std::string(row.name()));
  return words;
}

std::string help_text() {
  std::string text =
      "hvdrun starts a program as N cooperating ranks (through Open MPI's mpirun; on one\n"
      "machine also without it) and ends with the first failing rank's number, exit code and\n"
      "last lines.\n\n"
      "  hvdrun -np N [options] program [arguments of the program]\n\n"
      "Options\n";
  for (const OptionRow& row : kOptions) {
    if (row.effect == Effect::kOwn || row.effect == Effect::kSetting) text += describe(row);
  }
  text +=
      "\nExamples\n"
      "  hvdrun -np 2 python train.py --epochs 3       two ranks on this machine\n"
      "  hvdrun -np 4 ./train_digits                   more ranks than cores is fine\n"
      "  hvdrun -np 8 -H node1:4,node2:4 ./train       two machines: ssh without a password, and\n"
      "                                                hvdrun and the program at the same paths\n"
      "  hvdrun -np 2 --timeline-filename t.json ./train\n"
      "  hvdrun -np 2 -- -odd-program-name             -- ends hvdrun's options\n\n"
      "Slurm\n"
      "  salloc -N 2 -n 8; hvdrun python train.py      takes machines and ranks from the job,\n"
      "                                                also in a script for sbatch\n"
      "  srun -N 2 -n 8 --mpi=pmix python train.py     without hvdrun; srun --mpi=list shows\n"
      "                                                whether this Slurm has PMIx\n\n"
      "Lines of rank 1 arrive as '[1] text', standard error stays standard error, and rank 0\n"
      "gets standard input. HOROVOD_* and HVD_* variables reach every rank on every machine.\n"
      "Other options of horovodrun are accepted with a warning or refused with a reason.\n"
      "The exit code is the first failing rank's, 128 plus the number for a signal, 2 for a\n"
      "command line that hvdrun does not understand. Ctrl-C reaches all ranks; what has not\n"
      "ended 5 seconds later is killed. When a rank fails, the others have 3 seconds to notice\n"
      "and end by themselves.\n";
  return text;
}

}  // namespace hvd::runner
