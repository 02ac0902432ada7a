#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/config/loss_mark.h"
#include "core/system/host.h"
#include "runner/job.h"
#include "runner/link/connection.h"
#include "runner/process.h"

namespace hvd::runner {
namespace {

constexpr Duration kGrace = std::chrono::seconds(5);
constexpr Duration kDeliver = std::chrono::seconds(2);  // of a stopped program's last bytes
// Of what a program that has ended left open: whoever has it wrote nothing for so long.
constexpr Duration kQuiet = std::chrono::milliseconds(500);
// Bytes of output that hvdrun has not taken; above it the program has to wait. Together with
// kOutputRead less than any socket holds: see Taken.
constexpr std::size_t kMostOnTheWay = 1 << 15;
constexpr std::size_t kOutputRead = 1 << 14;
// Of what is left when the program has ended: more than the largest terminal and pipe hold.
constexpr std::size_t kMostDrained = std::size_t{4} << 20;

// A rank's numbers, in the words of Open MPI, of Horovod for ranks without MPI, and of PyTorch's
// launcher. Agents are started with those of one of the first two, programs get the last as well.
struct RankNumber {
  const char* open_mpi;
  const char* horovod;
  const char* torch;
};
constexpr RankNumber kRank = {"OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "RANK"};
constexpr RankNumber kSize = {"OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "WORLD_SIZE"};
constexpr RankNumber kLocalRank = {"OMPI_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK",
                                   "LOCAL_RANK"};
constexpr RankNumber kLocalSize = {"OMPI_COMM_WORLD_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE",
                                   "LOCAL_WORLD_SIZE"};

std::optional<int> read(const Environment& environment, const RankNumber& number) {
  for (const char* name : {number.open_mpi, number.horovod}) {
    if (const auto value = parse_number<int>(value_of(environment, name).value_or(""))) {
      return value;
    }
  }
  return std::nullopt;
}

int rank_from(const Environment& environment) {
  const int rank = read(environment, kRank).value_or(-1);
  if (rank < 0) {
    throw InvalidArgumentError(
        "--agent is for mpirun's and hvdrun's use; start hvdrun -np N program");
  }
  return rank;
}

void add_torch_variables(Environment& environment) {
  for (const RankNumber& number : {kRank, kSize, kLocalRank, kLocalSize}) {
    const auto value = read(environment, number);
    if (value) environment[number.torch] = std::to_string(*value);
  }
}

// Libraries with threads of their own would start one per core in every rank; two ranks on two
// cores would run four.
void share_out_threads(Environment& environment) {
  if (environment.contains("OMP_NUM_THREADS")) return;
  const int ranks = read(environment, kLocalSize).value_or(1);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  environment["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores / std::max(1, ranks)));
}

// Where a rank that started with this environment has left its last operations; "" if it has not.
std::string recording_of(const Environment& environment) {
  const std::string job = value_of(environment, kJobVariable).value_or("");
  if (!is_job_name(job)) return "";
  const std::string base = value_of(environment, "HVD_FLIGHT_RECORDER_DIR").value_or("");
  const std::string folder = flight_recorder_base(base) + "/" + job;
  const std::string file = folder + "/" + flight_recorder_file(rank_from(environment));
  return access(file.c_str(), F_OK) == 0 ? folder : "";
}

class Agent {
 public:
  Agent(std::span<const std::string> command, Environment environment, UniqueFd lifeline);
  int run();

 private:
  Connection call();
  void start_program();
  void turn(TimePoint until);
  bool has_room() const { return on_the_way_ < kMostOnTheWay; }
  void read_program(UniqueFd& fd, Stream stream);
  void read_launcher();
  void obey(const Message& message);
  void on_signal();
  void stop(int signal);
  void pass_on(int signal);
  void reap();
  void program_ended(EndKind kind, int value);
  bool deliver_rest();

  std::vector<std::string> command_;
  Environment environment_;
  LossMark loss_mark_;
  UniqueFd lifeline_;  // ends when mpirun ended the process it started
  UniqueFd signals_;
  Connection launcher_;
  std::size_t on_the_way_ = 0;  // bytes of output that hvdrun has not taken
  pid_t pid_ = -1;
  UniqueFd out_;
  UniqueFd err_;
  TimePoint last_output_;    // or when there was no room for any
  std::size_t drained_ = 0;  // bytes that came after the end
  std::optional<TimePoint> kill_at_;
  std::optional<ProgramEnd> end_;
  TimePoint deliver_by_ = TimePoint::max();  // after the end
};

Agent::Agent(std::span<const std::string> command, Environment environment, UniqueFd lifeline)
    : command_(command.begin(), command.end()),
      environment_(std::move(environment)),
      lifeline_(std::move(lifeline)),
      signals_(watch_signals()) {
  launcher_ = call();
  launcher_.say(Hello{host_name(), boot_id()});
  environment_[kLossMarkVariable] = loss_mark_.place();
  share_out_threads(environment_);
  add_torch_variables(environment_);
}

Connection Agent::call() {
  const int rank = rank_from(environment_);
  const auto address = environment_.find(kAgentVariable);
  if (address == environment_.end()) {
    throw InvalidArgumentError(std::string(kAgentVariable) + " is not set");
  }
  const AgentAddress to = parse_agent_address(address->second);
  environment_.erase(address);  // the program has no use for it
  const std::array endings = {signals_.get(), lifeline_.get()};
  return call_launcher({.to = to,
                        .rank = rank,
                        .give_up = Clock::now() + start_timeout(environment_),
                        .link_timeout = link_timeout(environment_),
                        .endings = endings});
}

int Agent::run() {
  start_program();
  while (!end_) turn(kill_at_.value_or(TimePoint::max()));
  return deliver_rest() ? 0 : 1;
}

void Agent::start_program() {
  Pipe out = make_terminal();
  Pipe err = make_pipe();
  const ChildStart child = start_child({.argv = command_,
                                        .environment = environment_,
                                        .stdout_fd = out.write_end.get(),
                                        .stderr_fd = err.write_end.get(),
                                        .death_signal = SIGKILL});
  out_ = std::move(out.read_end);
  err_ = std::move(err.read_end);
  set_nonblocking(out_.get());
  set_nonblocking(err_.get());
  pid_ = child.pid;
  if (child.error != 0) program_ended(EndKind::kNotStarted, child.error);
}

void Agent::turn(TimePoint until) {
  const bool room = has_room();
  std::array<pollfd, 5> polls = {{
      {signals_.get(), POLLIN, 0},
      launcher_.wanted(),
      {room ? out_.get() : -1, POLLIN, 0},
      {room ? err_.get() : -1, POLLIN, 0},
      {lifeline_.get(), POLLIN, 0},
  }};
  poll(polls.data(), polls.size(), milliseconds_until(until));
  if (!room) last_output_ = Clock::now();
  if (polls[2].revents != 0) read_program(out_, Stream::kStdout);
  if (polls[3].revents != 0) read_program(err_, Stream::kStderr);
  if (polls[1].revents != 0) read_launcher();
  launcher_.send();
  if (polls[0].revents != 0) on_signal();
  if (polls[4].revents != 0) {
    lifeline_.reset();
    stop(SIGTERM);
  }
  if (kill_at_ && Clock::now() >= *kill_at_) {
    kill(-pid_, SIGKILL);
    kill_at_ = Clock::now() + kGrace;
  }
}

void Agent::read_program(UniqueFd& fd, Stream stream) {
  if (!fd) return;
  Output output{stream, {}};
  if (!read_available(fd.get(), output.bytes, kOutputRead)) fd.reset();
  if (output.bytes.empty()) return;
  last_output_ = Clock::now();
  if (end_) drained_ += output.bytes.size();
  if (!launcher_) return;
  on_the_way_ += output.bytes.size();
  launcher_.say(output);
}

void Agent::read_launcher() {
  const bool alive = launcher_.receive();
  while (const auto message = launcher_.next()) obey(*message);
  if (alive) return;
  // hvdrun is gone, killed perhaps, or its host: nobody is left to run for.
  launcher_.close();
  on_the_way_ = 0;
  stop(SIGTERM);
}

void Agent::obey(const Message& message) {
  switch (message.type) {
    case MessageType::kStop:
      return stop(read<Stop>(message).signal);
    case MessageType::kSignal:
      return pass_on(read<Signal>(message).number);
    case MessageType::kTaken:
      on_the_way_ -= std::min<std::size_t>(on_the_way_, read<Taken>(message).bytes);
      return;
    case MessageType::kClockQuestion:
      return launcher_.say(ClockAnswer{read<ClockQuestion>(message).asked, Clock::now()});
    default:
      ByteReader::malformed("hvdrun does not say that");
  }
}

void Agent::on_signal() {
  while (const int signal = read_signal(signals_.get())) {
    if (signal == SIGCHLD) {
      reap();
    } else if (is_stop_signal(signal)) {
      stop(signal);
    } else {
      pass_on(signal);
    }
  }
}

void Agent::stop(int signal) {
  reap();  // a program that is already dead was not stopped by us
  if (end_) {
    deliver_by_ = std::min(deliver_by_, Clock::now() + kDeliver);
    return;
  }
  kill(-pid_, signal);
  kill(-pid_, SIGCONT);  // a stopped program cannot end
  if (!kill_at_) kill_at_ = Clock::now() + (signal == SIGKILL ? Duration::zero() : kGrace);
}

// The system ignores SIGTSTP in a session of its own, where nobody could continue what it stops.
void Agent::pass_on(int signal) {
  reap();
  if (!end_) kill(-pid_, signal == SIGTSTP ? SIGSTOP : signal);
}

void Agent::reap() {
  int status = 0;
  if (end_ || waitpid(pid_, &status, WNOHANG) != pid_) return;
  if (WIFEXITED(status)) {
    program_ended(EndKind::kExited, WEXITSTATUS(status));
  } else {
    program_ended(EndKind::kSignaled, WTERMSIG(status));
  }
  kill(-pid_, SIGKILL);  // what the program left running in its group
}

// hvdrun hears of it at once, however much output is still to come.
void Agent::program_ended(EndKind kind, int value) {
  const TimePoint now = Clock::now();
  end_ = ProgramEnd{.kind = kind,
                    .value = value,
                    .was_stopped = kill_at_.has_value(),
                    .after_loss = loss_mark_.is_set(),
                    .time = now,
                    .recording = recording_of(environment_)};
  last_output_ = now;
  if (kill_at_) deliver_by_ = now + kDeliver;
  kill_at_.reset();
  launcher_.say(*end_);
}

// What the program wrote and nobody has read: a terminal holds up to 640 KiB, and hands over a few
// at a time. It ends when all that have it open are gone; one that got away may keep it open. Then
// hvdrun hangs up: leaving earlier could reset the connection and lose what is still on its way.
// False when nobody was left to tell.
bool Agent::deliver_rest() {
  const auto over = [&] { return !launcher_ || Clock::now() >= deliver_by_; };
  while (!over() && (out_ || err_) && drained_ < kMostDrained) {
    const TimePoint quiet_at = last_output_ + kQuiet;
    if (has_room() && Clock::now() >= quiet_at) break;
    turn(std::min(deliver_by_, has_room() ? quiet_at : TimePoint::max()));
  }
  out_.reset();
  err_.reset();
  const bool heard = static_cast<bool>(launcher_);
  launcher_.say(Done{});
  while (!over()) turn(deliver_by_);
  return heard;
}

}  // namespace

int run_agent(std::span<const std::string> command) {
  // Two processes: mpirun ends the one that it started with SIGTERM and SIGKILL a second later. The
  // other, in a session of its own, notices that and still gives the program its whole grace.
  Pipe lifeline = make_pipe();
  leave_signals_to_others();
  const pid_t pid = fork();
  if (pid < 0) throw InternalError(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {
    setsid();
    lifeline.write_end.reset();
    return Agent(command, current_environment(), std::move(lifeline.read_end)).run();
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace hvd::runner
