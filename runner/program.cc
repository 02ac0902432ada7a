#include "runner/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "core/base/text.h"
#include "core/system/host.h"
#include "core/system/marked_processes.h"
#include "runner/process.h"

namespace hvd::runner {
namespace {

constexpr Duration kGrace = std::chrono::seconds(5);
// Of the last bytes of a program.
constexpr Duration kDeliver = std::chrono::seconds(2);
// Of what a program that has ended left open: whoever has it wrote nothing for so long.
constexpr Duration kQuiet = std::chrono::milliseconds(500);
// Bytes of output that hvdrun has not taken; above it the program has to wait. See Taken.
constexpr std::size_t kMostOnTheWay = 1 << 15;
constexpr std::size_t kOutputRead = 1 << 14;
// Of what is left when the program has ended: more than the largest terminal and pipe hold.
constexpr std::size_t kMostDrained = std::size_t{4} << 20;

void add_variables(Environment& environment, const std::string& joined) {
  for (const std::string& variable : split_joined(joined)) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    environment.insert_or_assign(variable.substr(0, equals), variable.substr(equals + 1));
  }
}

// Libraries with threads of their own would start one per core in every rank; two ranks on two
// cores would run four.
void share_out_threads(Environment& environment) {
  if (environment.contains("OMP_NUM_THREADS")) return;
  const auto ranks = parse_number<int>(value_of(environment, "LOCAL_WORLD_SIZE").value_or(""));
  // What mpirun says of a rank that it has bound: its cores are its own or shared with a few.
  const bool is_bound = environment.contains("OMPI_MCA_orte_bound_at_launch");
  const int all = is_bound ? static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) : usable_cores();
  environment["OMP_NUM_THREADS"] =
      std::to_string(std::clamp(all / std::max(1, ranks.value_or(1)), 1, usable_cores()));
}

// Where a rank that started with this environment has left its last operations; "" if it has not.
std::string recording_of(const Environment& environment, int rank) {
  const std::string job = value_of(environment, engine::kJobVariable).value_or("");
  if (!engine::is_job_name(job)) return "";
  const std::string base = value_of(environment, "HVD_FLIGHT_RECORDER_DIR").value_or("");
  const std::string folder = engine::flight_recorder_base(base) + "/" + job;
  const std::string file = folder + "/" + engine::flight_recorder_file(rank);
  return access(file.c_str(), F_OK) == 0 ? folder : "";
}

}  // namespace

Program::Program(int rank, const Start& run, Environment environment, Connection& hvdrun)
    : rank_(rank), process_(run.process), hvdrun_(hvdrun), environment_(std::move(environment)) {
  add_variables(environment_, run.environment);
  share_out_threads(environment_);
  environment_[kLossMarkVariable] = loss_mark_.place();
  start(run);
}

void Program::start(const Start& run) {
  Pipe out = run.on_terminal ? make_terminal() : make_pipe();
  Pipe err = make_pipe();
  if (!run.on_terminal) {
    environment_[OutputCount::kVariable] =
        count_.emplace().place(out.write_end.get(), err.write_end.get());
  }
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const ChildStart child = start_child({.argv = split_joined(run.command),
                                        .environment = environment_,
                                        .folder = run.folder,
                                        // Rank 0 has what hvdrun passes on to the first agent.
                                        .stdin_fd = rank_ == 0 ? -1 : nothing.get(),
                                        .stdout_fd = out.write_end.get(),
                                        .stderr_fd = err.write_end.get(),
                                        .death_signal = SIGKILL});
  out_ = std::move(out.read_end);
  err_ = std::move(err.read_end);
  set_nonblocking(out_.get());
  set_nonblocking(err_.get());
  pid_ = child.pid;
  if (child.error == 0) return;
  if (child.in_folder) {
    hvdrun_.say(Output{Stream::kStderr, "hvdrun: on " + engine::host_name() +
                                            " there is no folder '" + run.folder + "' to run in\n"},
                rank_);
  }
  note_end(EndKind::kNotStarted, child.error);
}

bool Program::has_room() const {
  return on_the_way_ < kMostOnTheWay;
}

void Program::add_polls(std::vector<pollfd>& polls) const {
  const bool room = has_room();
  polls.push_back({room ? out_.get() : -1, POLLIN, 0});
  polls.push_back({room ? err_.get() : -1, POLLIN, 0});
}

void Program::serve(const pollfd* polls) {
  is_idle_ = polls[0].revents == 0 && polls[1].revents == 0;
  if (!has_room()) last_output_ = open_since_ = Clock::now();
  if (polls[0].revents != 0) read(out_, Stream::kStdout);
  if (polls[1].revents != 0) read(err_, Stream::kStderr);
}

void Program::read(UniqueFd& fd, Stream stream) {
  if (!fd) return;
  Output output{stream, {}};
  if (count_) count_->begin_read();
  const bool open = read_available(fd.get(), output.bytes, kOutputRead);
  if (count_) count_->end_read(output.bytes.size());
  if (!open) fd.reset();
  if (output.bytes.empty()) return;
  last_output_ = Clock::now();
  if (end_) drained_ += output.bytes.size();
  if (!hvdrun_) return;
  on_the_way_ += output.bytes.size();
  hvdrun_.say(output, rank_);
}

TimePoint Program::next_deadline() const {
  if (kill_at_) return *kill_at_;
  if (!end_) return TimePoint::max();
  if (done_) return deliver_by_;
  return has_room() ? std::min(given_up_at(), last_output_ + kQuiet) : given_up_at();
}

// What the program wrote and is still unread: a terminal holds up to 640 KiB, and hands over a few
// at a time. It ends when all that have it open are gone; one that got away may keep it open.
bool Program::delivered(TimePoint now) const {
  if (!out_ && !err_) return true;
  const bool quiet = has_room() && now >= last_output_ + kQuiet;
  const bool late = now >= deliver_by_ || (is_idle_ && now >= given_up_at());
  return quiet || late || drained_ >= kMostDrained || !hvdrun_;
}

// What the program left running may write forever.
TimePoint Program::given_up_at() const {
  return std::min(deliver_by_, open_since_ + kDeliver);
}

void Program::tick(TimePoint now) {
  if (kill_at_ && now >= *kill_at_) {
    kill(-pid_, SIGKILL);
    kill_at_ = now + kGrace;
  }
  if (!end_ || done_ || !delivered(now)) return;
  out_.reset();
  err_.reset();
  done_ = true;
  hvdrun_.say(Done{}, rank_);
}

void Program::stop(int signal) {
  reap();  // a program that is already dead was not stopped by us
  if (end_) {
    deliver_by_ = std::min(deliver_by_, Clock::now() + kDeliver);
    return;
  }
  kill(-pid_, signal);
  kill(-pid_, SIGCONT);  // a stopped program cannot end
  if (!kill_at_) kill_at_ = Clock::now() + (signal == SIGKILL ? Duration::zero() : kGrace);
}

// The system ignores SIGTSTP in a session of its own, where nothing could continue what it stops.
void Program::pass_on(int signal) {
  reap();
  if (!end_) kill(-pid_, signal == SIGTSTP ? SIGSTOP : signal);
}

void Program::signal(int number) {
  reap();
  if (!end_) kill(number == SIGKILL ? -pid_ : pid_, number);
}

void Program::reap() {
  int status = 0;
  if (end_ || waitpid(pid_, &status, WNOHANG) != pid_) return;
  if (WIFEXITED(status)) {
    note_end(EndKind::kExited, WEXITSTATUS(status));
  } else {
    note_end(EndKind::kSignaled, WTERMSIG(status));
  }
  kill(-pid_, SIGKILL);  // what the program left running in its group
  if (const auto mark = value_of(environment_, kMarkVariable)) {
    engine::kill_marked(std::string(kMarkVariable) + "=" + *mark);  // and anywhere else
  }
}

// hvdrun hears of it at once, however much output is still to come.
void Program::note_end(EndKind kind, int value) {
  const TimePoint now = Clock::now();
  end_ = ProgramEnd{.kind = kind,
                    .value = value,
                    .was_stopped = kill_at_.has_value(),
                    .after_loss = loss_mark_.is_set(),
                    .time = now,
                    .recording = recording_of(environment_, rank_)};
  last_output_ = open_since_ = now;
  if (kill_at_) deliver_by_ = now + kDeliver;
  kill_at_.reset();
  hvdrun_.say(*end_, rank_);
}

}  // namespace hvd::runner
