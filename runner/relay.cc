#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/status.h"
#include "core/system/host.h"
#include "runner/agents.h"
#include "runner/beginning.h"
#include "runner/job.h"
#include "runner/process.h"

namespace hvd::runner {
namespace {

// Programs are killed at once; this is for what carries the word to them.
constexpr Duration kAgentsEnd = std::chrono::seconds(3);
constexpr std::size_t kReadOnce = 1 << 16;
constexpr std::size_t kMostHeld = 1 << 16;    // bytes of what ssh and agents said
constexpr std::size_t kMostUnsent = 1 << 16;  // bytes; above it the programs have to wait

// The socket on standard input, which no child of ours gets.
TcpDescriptor take_standard_input() {
  const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (fd < 0 || dup2(nothing.get(), STDIN_FILENO) < 0) {
    throw InternalError(std::string("standard input: ") + std::strerror(errno));
  }
  return TcpDescriptor(fd);
}

class Relay {
 public:
  Relay(const Options& options, const LaunchContext& context);
  int run();

 private:
  bool finished() const;
  TimePoint wakes_at() const;
  void turn();
  void read_client();
  void obey(Message message);
  void start_programs();
  void start(int rank, const std::string& variables);
  void forward(const AgentEvent& event);
  void on_signal();
  void stop();
  int report();

  const Options& options_;
  UniqueFd signals_;
  Connection client_;
  UniqueFd parent_;  // a process that it forks would keep the socket open
  Agents agents_;
  Reception reception_;
  const LaunchPlan plan_;
  RootProcesses roots_;
  std::vector<UniqueFd> starter_output_;  // of each command, by stream
  std::string said_;                      // by ssh and agents
  std::vector<Environment> places_;       // of the ranks, once all agents are there
  std::vector<Message> early_;            // what came before
  std::set<int> running_;                 // ranks
  bool stopping_ = false;
};

Relay::Relay(const Options& options, const LaunchContext& context)
    : options_(options),
      signals_(watch_signals()),
      client_(take_standard_input()),
      parent_(static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0))),
      agents_(ranks_of_agents(options, context), link_timeout(rank_environment(options, context))),
      reception_(
          open_reception(options, context, [this](int rank) { return agents_.expects(rank); })),
      plan_(make_launch_plan(options, context, to_string(reception_.address()),
                             "unix:hvdrun-" + random_hex(32))) {
  Pipe in = make_pipe();
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // as for a job: agents that outlive who started them
  starter_output_ = roots_.start(plan_, in.read_end.get());
  const std::string line = plan_.agent_address + "\n";
  [[maybe_unused]] const auto fits = write(in.write_end.get(), line.data(), line.size());
}

int Relay::run() {
  while (!finished()) turn();
  return report();
}

bool Relay::finished() const {
  return roots_.ended() && (agents_.none() || roots_.ended_for(Clock::now()) >= kAgentsEnd);
}

TimePoint Relay::wakes_at() const {
  return std::min({Clock::now() + std::chrono::seconds(1), roots_.next_deadline(),
                   reception_.next_deadline(), agents_.next_deadline()});
}

void Relay::turn() {
  std::vector<pollfd> polls = {
      {signals_.get(), POLLIN, 0}, client_.wanted(), {parent_.get(), POLLIN, 0}};
  const std::size_t said = polls.size();
  for (const UniqueFd& fd : starter_output_) polls.push_back({fd.get(), POLLIN, 0});
  const std::size_t fixed = polls.size();
  agents_.add_polls(polls);
  const std::size_t known = polls.size();
  reception_.add_polls(polls);
  poll(polls.data(), polls.size(), milliseconds_until(wakes_at()));
  const std::span all(polls);
  const TimePoint now = Clock::now();
  for (Reception::Agent& agent : reception_.serve(all.subspan(known), now)) {
    agents_.welcome(std::move(agent), now);
  }
  for (const AgentEvent& event : agents_.serve(all.subspan(fixed, known - fixed), now)) {
    forward(event);
  }
  agents_.tick(now);
  if (polls[0].revents != 0) on_signal();
  if (polls[1].revents != 0) read_client();
  if (polls[2].revents != 0) {
    parent_.reset();
    stop();
  }
  for (std::size_t i = 0; i < starter_output_.size(); ++i) {
    if (polls[said + i].revents == 0) continue;
    std::string bytes;
    if (!read_available(starter_output_[i].get(), bytes, kReadOnce)) starter_output_[i].reset();
    said_.append(bytes, 0, kMostHeld - std::min(kMostHeld, said_.size()));
  }
  start_programs();
  client_.flush();
  if (client_.unsent() < kMostUnsent) agents_.take_more();
  if (stopping_ && running_.empty()) agents_.hang_up_all();
  roots_.enforce_end(now);
}

void Relay::read_client() {
  const bool alive = client_.read();
  while (auto message = client_.next()) obey(std::move(*message));
  if (alive) return;
  client_.close();
  stop();
}

void Relay::obey(Message message) {
  if (places_.empty()) return early_.push_back(std::move(message));
  switch (message.type) {
    case MessageType::kStart:
      return start(message.rank, read<Start>(message).environment);
    case MessageType::kSignal:
      return agents_.tell(message.rank, read<Signal>(message));
    case MessageType::kFlush:
      return agents_.tell(message.rank, Flush{});
    default:
      ByteReader::malformed("no program that is started with --relay says that");
  }
}

// Once all agents are there: only then it is known which hosts they are on.
void Relay::start_programs() {
  const std::vector<HostFacts> facts = agents_.facts();
  if (!places_.empty() || facts.empty()) return;
  places_ = rank_variables(plan_.agents, facts, plan_.meeting);
  for (Message& message : std::exchange(early_, {})) obey(std::move(message));
}

void Relay::start(int rank, const std::string& variables) {
  if (rank < 0 || std::cmp_greater_equal(rank, places_.size())) {
    ByteReader::malformed("there is no such rank");
  }
  std::vector<std::string> all;
  Environment place = places_[static_cast<std::size_t>(rank)];
  place.insert(plan_.exported.begin(), plan_.exported.end());
  for (const auto& [name, value] : place) all.push_back(name + "=" + value);
  const Start program = {join(options_.command), join(all) + variables, plan_.folder, false};
  if (stopping_ || !agents_.start(rank, program)) {
    client_.say(ProgramEnd{.kind = EndKind::kLost}, rank);
    return client_.say(Done{}, rank);
  }
  running_.insert(rank);
}

void Relay::forward(const AgentEvent& event) {
  if (const auto* output = std::get_if<RankOutput>(&event)) {
    client_.say(output->output, output->rank);
  } else if (const auto* end = std::get_if<RankEnd>(&event)) {
    client_.say(end->end, end->rank);
  } else if (const auto* done = std::get_if<RankDone>(&event)) {
    running_.erase(done->rank);
    client_.say(Done{}, done->rank);
  } else {
    client_.say(Flushed{}, std::get<RankFlushed>(event).rank);
  }
}

void Relay::on_signal() {
  while (const int signal = read_signal(signals_.get())) {
    if (is_stop_signal(signal)) stop();
    if (signal != SIGCHLD) continue;
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) roots_.note_end(pid, status);
    // Without one of the hosts no rank starts.
    if (roots_.over() && places_.empty()) stop();
  }
}

void Relay::stop() {
  if (std::exchange(stopping_, true)) return;
  agents_.stop(SIGKILL);
  roots_.end_at(agents_.any_came() ? Clock::now() + kAgentsEnd : Clock::now());
}

int Relay::report() {
  if (!places_.empty() || roots_.exit_code() == 0) return 0;
  const std::string& host = plan_.commands[roots_.failed()].host;
  const std::string text = said_ + "hvdrun: " + starter_of(plan_, roots_.failed()) +
                           " failed with exit code " + std::to_string(roots_.exit_code()) + "\n" +
                           address_advice(options_.hosts) +
                           (host.empty() ? "" : launcher_advice(said_, host, roots_.exit_code()));
  std::fputs(text.c_str(), stderr);
  return 1;
}

}  // namespace

int run_relay(const Options& options, const LaunchContext& context) {
  return Relay(options, context).run();
}

}  // namespace hvd::runner
