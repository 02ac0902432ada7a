#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <list>
#include <optional>
#include <random>
#include <utility>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/system/host.h"
#include "ops/net/tcp_socket.h"
#include "runner/job.h"
#include "runner/link/connection.h"
#include "runner/process.h"
#include "runner/program.h"

namespace hvd::runner {
namespace {

constexpr Duration kTell = std::chrono::seconds(2);  // hvdrun's time to hang up when it is to end

// What comes after "agent": hvdrun gives a number, people also where it is. mpirun, which starts
// one agent per rank, gives none.
struct AgentWords {
  int number = kAnyNumber;
  std::string driver;  // "" = as hvdrun or mpirun says it
  std::string key_file;
};

AgentWords read_words(std::span<const std::string> arguments, const Environment& environment) {
  AgentWords words;
  const auto rank = value_of(environment, "OMPI_COMM_WORLD_RANK");
  std::optional<int> number = parse_number<int>(rank.value_or(""));
  bool good = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_driver = arguments[i] == "--driver";
    if (is_driver || arguments[i] == "--key-file") {
      (is_driver ? words.driver : words.key_file) = i + 1 < arguments.size() ? arguments[++i] : "";
    } else {
      number = parse_number<int>(arguments[i]);
      good = good && number && *number >= 0;
    }
  }
  if (number) words.number = *number;
  if (good && words.driver.empty() == words.key_file.empty() && (number || !words.driver.empty())) {
    return words;
  }
  throw InvalidArgumentError(
      "hvdrun agent: expected [NUMBER] --driver HOST:PORT --key-file FILE, as hvdrun "
      "--launcher none prints it");
}

// The first line of standard input. What follows is left for the program of rank 0 to read.
std::string read_address(const AgentCall& call) {
  std::string line;
  for (char c = 0; line.size() < (1 << 16); line += c) {
    if (!wait_until_ready(STDIN_FILENO, POLLIN, call.give_up, call.endings)) {
      throw PeerLostError(described(call) +
                          ": hvdrun's address did not arrive on standard input; what starts agents "
                          "(--launcher) has to pass it on");
    }
    if (::read(STDIN_FILENO, &c, 1) != 1 || c == '\n') break;
  }
  return line;
}

// Where hvdrun is: on the command line, in mpirun's environment, or on standard input.
AgentAddress find_hvdrun(const AgentWords& words, const Environment& environment,
                         const AgentCall& call) {
  if (words.driver.empty()) {
    const auto given = value_of(environment, kAgentVariable);
    return parse_agent_address(given ? *given : read_address(call));
  }
  AgentAddress to = parse_agent_address(read_key_file(words.key_file, false) + " " + words.driver);
  for (const engine::TcpAddress& each : std::exchange(to.endpoints, {})) {
    for (const std::string& host : engine::resolve(each.host))
      to.endpoints.push_back({host, each.port});
  }
  return to;
}

class Agent {
 public:
  Agent(const AgentWords& words, Environment environment, UniqueFd lifeline);
  int run();

 private:
  Connection call(const AgentWords& words);
  bool finished() const;
  TimePoint wakes_at() const;
  void turn();
  void read_hvdrun();
  void obey(const Message& message);
  void start(const Message& message);
  void signal(const Signal& signal, int rank);
  Program* find(int rank);
  void on_signal();
  void stop(int signal);
  void pass_on(int signal);

  Environment environment_;
  UniqueFd lifeline_;  // ends when mpirun ended the process it started
  UniqueFd signals_;
  Connection hvdrun_;
  std::array<engine::TcpListener, 2> ports_;  // for MASTER_PORT and the ranks' meeting
  std::list<Program> programs_;               // after hvdrun_, which they use
  TimePoint leave_at_ = TimePoint::max();     // without programs: after a stop
  bool was_heard_ = true;                     // hvdrun was there until all was said
};

Agent::Agent(const AgentWords& words, Environment environment, UniqueFd lifeline)
    : environment_(std::move(environment)),
      lifeline_(std::move(lifeline)),
      signals_(watch_signals()) {
  hvdrun_ = call(words);
  // Those of the first agent count; one without a number may become it. Free on all interfaces, and
  // held until programs start. These bind them seconds later: jobs that start together on one host,
  // with one HVD_PORT_RANGE, begin to look in different places.
  std::random_device draw;
  for (engine::TcpListener& port : ports_) {
    if (words.number == 0 || words.number == kAnyNumber)
      port = engine::listen_on("0.0.0.0", port_range(environment_), draw());
  }
  hvdrun_.say(Hello{engine::host_name(), engine::boot_id(), ports_[0].at.port, ports_[1].at.port});
}

Connection Agent::call(const AgentWords& words) {
  const std::array endings = {signals_.get(), lifeline_.get()};
  AgentCall call{.to = {},
                 .number = words.number,
                 .give_up = Clock::now() + start_timeout(environment_),
                 .link_timeout = link_timeout(environment_),
                 .endings = endings};
  call.to = find_hvdrun(words, environment_, call);
  environment_.erase(kAgentVariable);  // programs have no use for it
  return call_launcher(call);
}

int Agent::run() {
  while (!finished()) turn();
  return was_heard_ ? 0 : 1;
}

// Until hvdrun hangs up: leaving earlier could reset the connection and lose what is on its way.
bool Agent::finished() const {
  const TimePoint now = Clock::now();
  const bool overdue = programs_.empty() && now >= leave_at_;
  return overdue || (hvdrun_ ? !programs_.empty() && std::all_of(programs_.begin(), programs_.end(),
                                                                 [&](const Program& each) {
                                                                   return each.overdue(now);
                                                                 })
                             : std::all_of(programs_.begin(), programs_.end(),
                                           [](const Program& each) { return each.done(); }));
}

TimePoint Agent::wakes_at() const {
  TimePoint next = programs_.empty() ? leave_at_ : TimePoint::max();
  for (const Program& each : programs_) next = std::min(next, each.next_deadline());
  return next;
}

void Agent::turn() {
  std::vector<pollfd> polls = {
      {signals_.get(), POLLIN, 0}, hvdrun_.wanted(), {lifeline_.get(), POLLIN, 0}};
  const std::size_t fixed = polls.size();
  for (const Program& each : programs_) each.add_polls(polls);
  poll(polls.data(), polls.size(), engine::milliseconds_until(wakes_at()));
  std::size_t at = fixed;
  for (Program& each : programs_) {
    each.serve(&polls[at]);
    at += 2;
  }
  if (polls[1].revents != 0) read_hvdrun();
  hvdrun_.flush();
  if (polls[0].revents != 0) on_signal();
  if (polls[2].revents != 0) {
    lifeline_.reset();
    stop(SIGTERM);
  }
  for (Program& each : programs_) each.tick(Clock::now());
}

void Agent::read_hvdrun() {
  const bool alive = hvdrun_.read();
  while (const auto message = hvdrun_.next()) obey(*message);
  if (alive) return;
  // hvdrun is gone, killed perhaps, or its host: there is nothing left to run for. Or it hung up.
  hvdrun_.close();
  was_heard_ = std::all_of(programs_.begin(), programs_.end(),
                           [](const Program& each) { return each.done(); });
  for (Program& each : programs_) each.taken(SIZE_MAX);
  stop(SIGTERM);
}

void Agent::obey(const Message& message) {
  switch (message.type) {
    case MessageType::kStart:
      return start(message);
    case MessageType::kStop:
      return stop(read<Stop>(message).signal);
    case MessageType::kSignal:
      return signal(read<Signal>(message), message.rank);
    case MessageType::kTaken:
      if (Program* program = find(message.rank)) program->taken(read<Taken>(message).bytes);
      return;
    case MessageType::kClockQuestion:
      return hvdrun_.say(ClockAnswer{read<ClockQuestion>(message).asked, Clock::now()});
    default:
      ByteReader::malformed("hvdrun does not send such a message");
  }
}

// Once more, if the program that the rank had is done.
void Agent::start(const Message& message) {
  if (leave_at_ != TimePoint::max()) return;
  const Program* before = find(message.rank);
  if (before != nullptr && !before->done()) return;
  ports_ = {};
  std::erase_if(programs_, [&](const Program& each) { return &each == before; });
  programs_.emplace_back(message.rank, read<Start>(message), environment_, hvdrun_);
}

void Agent::signal(const Signal& signal, int rank) {
  if (rank == engine::kNoRank) return pass_on(signal.number);
  Program* program = find(rank);
  if (program != nullptr && program->process() == signal.process) program->signal(signal.number);
}

Program* Agent::find(int rank) {
  const auto found = std::find_if(programs_.begin(), programs_.end(),
                                  [&](const Program& each) { return each.rank() == rank; });
  return found == programs_.end() ? nullptr : &*found;
}

void Agent::on_signal() {
  while (const int signal = read_signal(signals_.get())) {
    if (signal == SIGCHLD) {
      for (Program& each : programs_) each.reap();
    } else if (is_stop_signal(signal)) {
      stop(signal);
    } else {
      pass_on(signal);
    }
  }
}

void Agent::stop(int signal) {
  leave_at_ = std::min(leave_at_, Clock::now() + kTell);
  for (Program& each : programs_) each.stop(signal);
}

void Agent::pass_on(int signal) {
  for (Program& each : programs_) each.pass_on(signal);
}

}  // namespace

int run_agent(std::span<const std::string> arguments) {
  const Environment environment = current_environment();
  const AgentWords words = read_words(arguments, environment);
  // Two processes: mpirun ends the one that it started with SIGTERM and SIGKILL a second later. The
  // other, in a session of its own, notices that and still gives the programs their whole grace.
  // Where the other one is killed, the first one ends what its programs had started.
  Pipe lifeline = make_pipe();
  leave_signals_to_others();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t pid = fork();
  if (pid < 0) throw InternalError("fork: ", std::strerror(errno));
  if (pid == 0) {
    setsid();
    lifeline.write_end.reset();
    return Agent(words, environment, std::move(lifeline.read_end)).run();
  }
  int status = 0;
  while (waitpid(-1, &status, 0) != pid) {  // what programs left is ours to reap
  }
  if (WIFSIGNALED(status)) kill_children([](pid_t) { return true; });
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace hvd::runner
