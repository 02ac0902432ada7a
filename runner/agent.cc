#include "runner/agent.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "runner/process.h"
#include "runner/wall_clock.h"
#include "runner/wire.h"

namespace hvd::runner {
namespace {

constexpr Duration kGrace = std::chrono::seconds(5);
constexpr Duration kDeliver = std::chrono::seconds(2);  // of a stopped program's last bytes
constexpr std::size_t kMostUnsent = 1 << 18;            // bytes; above it the program has to wait
constexpr std::size_t kReadOnce = 1 << 16;
// Of what is left when the program has ended: more than the largest terminal and pipe hold.
constexpr std::size_t kMostDrained = std::size_t{4} << 20;
constexpr int kQuietMs = 500;

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

UniqueFd connect_to(const AgentAddress& address) {
  std::string why;
  for (const std::string& host : address.hosts) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    if (inet_pton(AF_INET, host.c_str(), &to.sin_addr) != 1) continue;
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{10, 0};  // an address of another network may not answer at all
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      set_nonblocking(fd.get());
      return fd;
    }
    why += " " + host + ":" + std::to_string(address.port) + " (" + std::strerror(errno) + ")";
  }
  throw PeerLostError("agent on " + host_name() + " cannot reach hvdrun at" + why +
                      "; is a firewall between the hosts?");
}

// mpirun starts agents with the rank in the first of these variables, hvdrun in the second.
// Of the first of these variables that is set and a number.
std::optional<int> number_from(const Environment& environment,
                               std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto it = environment.find(name);
    if (it == environment.end()) continue;
    int number = 0;
    const char* last = it->second.data() + it->second.size();
    if (std::from_chars(it->second.data(), last, number).ec == std::errc()) return number;
  }
  return std::nullopt;
}

int rank_from(const Environment& environment) {
  const int rank = number_from(environment, {"OMPI_COMM_WORLD_RANK", "HOROVOD_RANK"}).value_or(-1);
  if (rank < 0) {
    throw InvalidArgumentError(
        "--agent is for mpirun's and hvdrun's use; start hvdrun -np N program");
  }
  return rank;
}

// Libraries with threads of their own would start one a core in every rank; two ranks on two cores
// would run four.
void share_out_threads(Environment& environment) {
  if (environment.contains("OMP_NUM_THREADS")) return;
  const int ranks =
      number_from(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE"}).value_or(1);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  environment["OMP_NUM_THREADS"] = std::to_string(std::max(1, cores / std::max(1, ranks)));
}

class Agent {
 public:
  Agent(std::span<const std::string> command, Environment environment, UniqueFd lifeline);
  int run();

 private:
  void start_program();
  void turn();
  void read_program(UniqueFd& fd, Stream stream);
  void read_launcher();
  void send_some();
  void on_signal();
  void stop(int signal);
  void reap();
  void drain_program(TimePoint limit);
  void deliver_end();
  int wait_time() const;

  std::vector<std::string> command_;
  Environment environment_;
  UniqueFd lifeline_;  // ends when mpirun ended the process it started
  UniqueFd signals_;
  UniqueFd launcher_;
  MessageReader from_launcher_;
  Bytes unsent_;
  pid_t pid_ = -1;
  UniqueFd out_;
  UniqueFd err_;
  std::optional<TimePoint> kill_at_;
  std::optional<ProgramEnd> end_;
};

Agent::Agent(std::span<const std::string> command, Environment environment, UniqueFd lifeline)
    : command_(command.begin(), command.end()),
      environment_(std::move(environment)),
      lifeline_(std::move(lifeline)) {
  const auto address = environment_.find(kAgentVariable);
  const Hello hello{.key = "", .rank = rank_from(environment_), .host = host_name()};
  if (address == environment_.end()) {
    throw InvalidArgumentError(std::string(kAgentVariable) + " is not set");
  }
  const AgentAddress parsed = parse_agent_address(address->second);
  environment_.erase(address);  // the program has no use for it
  share_out_threads(environment_);
  signals_ = watch_signals();
  launcher_ = connect_to(parsed);
  append(unsent_, Hello{parsed.key, hello.rank, hello.host});
}

int Agent::run() {
  start_program();
  while (!end_) turn();
  if (!launcher_) return 1;  // nobody is left to tell
  deliver_end();
  return 0;
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
  if (child.error != 0) {
    end_ = ProgramEnd{EndKind::kNotStarted, child.error, false, system_time()};
  }
}

int Agent::wait_time() const {
  if (!kill_at_) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void Agent::turn() {
  const bool room = unsent_.size() < kMostUnsent;
  std::array<pollfd, 5> polls = {{
      {signals_.get(), POLLIN, 0},
      {launcher_.get(), static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)), 0},
      {room ? out_.get() : -1, POLLIN, 0},
      {room ? err_.get() : -1, POLLIN, 0},
      {lifeline_.get(), POLLIN, 0},
  }};
  poll(polls.data(), polls.size(), wait_time());
  if (polls[2].revents != 0) read_program(out_, Stream::kStdout);
  if (polls[3].revents != 0) read_program(err_, Stream::kStderr);
  if (polls[1].revents != 0) read_launcher();
  send_some();
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
  if (!read_available(fd.get(), output.bytes, kReadOnce)) fd.reset();
  if (!output.bytes.empty() && launcher_) append(unsent_, output);
}

void Agent::read_launcher() {
  if (!launcher_) return;
  std::string bytes;
  const bool alive = read_available(launcher_.get(), bytes, kReadOnce);
  from_launcher_.feed(std::as_bytes(std::span(bytes)));
  while (const auto message = from_launcher_.next()) stop(read_stop(*message).signal);
  if (!alive) {  // hvdrun is gone, killed perhaps: nobody is left to run for
    launcher_.reset();
    unsent_.clear();
    stop(SIGTERM);
  }
}

void Agent::send_some() {
  while (launcher_ && !unsent_.empty()) {
    const ssize_t sent =
        ::send(launcher_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) return;  // full, or gone: read_launcher() finds out
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
}

void Agent::on_signal() {
  while (const int signal = read_signal(signals_.get())) {
    if (signal == SIGCHLD) {
      reap();
    } else {
      stop(signal);
    }
  }
}

void Agent::stop(int signal) {
  reap();  // a program that is already dead was not stopped by us
  if (end_) return;
  kill(-pid_, signal);
  kill(-pid_, SIGCONT);  // a stopped program cannot end
  if (!kill_at_) kill_at_ = Clock::now() + (signal == SIGKILL ? Duration::zero() : kGrace);
}

void Agent::reap() {
  int status = 0;
  if (end_ || waitpid(pid_, &status, WNOHANG) != pid_) return;
  const bool exited = WIFEXITED(status);
  end_ = ProgramEnd{exited ? EndKind::kExited : EndKind::kSignaled,
                    exited ? WEXITSTATUS(status) : WTERMSIG(status), kill_at_.has_value(),
                    system_time()};
  kill(-pid_, SIGKILL);  // what the program left running in its group
}

// What the program wrote and nobody has read: a terminal holds up to 640 KiB, and hands over a few
// at a time. It ends when all that have it open are gone; one that got away may keep it open.
void Agent::drain_program(TimePoint limit) {
  while ((out_ || err_) && unsent_.size() < kMostDrained && Clock::now() < limit) {
    std::array<pollfd, 2> polls = {{{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}}};
    if (poll(polls.data(), polls.size(), kQuietMs) == 0) return;
    if (polls[0].revents != 0) read_program(out_, Stream::kStdout);
    if (polls[1].revents != 0) read_program(err_, Stream::kStderr);
  }
}

// Everything the program wrote, then its end. hvdrun closes the connection when it has read that;
// leaving earlier could reset the connection and lose what is still on its way.
void Agent::deliver_end() {
  const TimePoint limit = Clock::now() + kDeliver;
  drain_program(limit);
  append(unsent_, *end_);
  const bool hurry = kill_at_.has_value();
  while (launcher_ && !(hurry && Clock::now() >= limit)) {
    pollfd ready{launcher_.get(), static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)), 0};
    poll(&ready, 1, 100);
    send_some();
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_launcher();
  }
}

}  // namespace

int run_agent(std::span<const std::string> command) {
  // Two processes: mpirun ends the one that it started with SIGTERM and SIGKILL a second later. The
  // other, in a session of its own, notices that and still gives the program its whole grace.
  Pipe lifeline = make_pipe();
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
