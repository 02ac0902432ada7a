#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/status.h"
#include "core/system/host.h"
#include "runner/job.h"
#include "runner/program.h"
#include "runner/supervisor.h"

namespace hvd::runner {
namespace {

// Programs are killed at once; this is for what carries the word to them.
constexpr Duration kAgentsEnd = std::chrono::seconds(3);
constexpr Duration kStartersEnd = std::chrono::milliseconds(500);  // once all agents are through
constexpr std::size_t kMostUnsent = 1 << 16;  // bytes; above it the programs have to wait

// The socket on standard input, which no child of ours gets.
engine::TcpDescriptor take_standard_input() {
  const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (fd < 0 || dup2(nothing.get(), STDIN_FILENO) < 0) {
    throw InternalError("standard input: ", std::strerror(errno));
  }
  return engine::TcpDescriptor(fd);
}

class Relay : Supervisor {
 public:
  Relay(const Options& options, const LaunchContext& context);
  int run();

 private:
  bool finished() const;
  void turn();
  void read_client();
  void obey(Message message);
  void start_programs();
  void start(int rank, const Start& asked);
  void on_event(const AgentEvent& event) override;
  void on_signal(int signal) override;
  void on_starter_output(std::size_t number, Stream stream, const std::string& bytes) override;
  void on_starter_end() override;
  void say(const std::string& text, Stream stream = Stream::kStderr) override {
    client_.say(Output{stream, text});
  }
  void stop();
  int report();

  Connection client_;
  UniqueFd parent_;                  // a process that it forks would keep the socket open
  std::vector<Environment> places_;  // of the ranks, once all agents are there
  std::vector<Message> early_;       // what came before
  std::set<int> running_;            // ranks
  bool stopping_ = false;
};

Relay::Relay(const Options& options, const LaunchContext& context)
    : Supervisor(options, context),
      client_(take_standard_input()),
      parent_(static_cast<int>(syscall(SYS_pidfd_open, getppid(), 0))) {
  const auto [in, line] = start_agents();
  [[maybe_unused]] const auto fits = write(in.get(), line.data(), line.size());
}

int Relay::run() {
  while (!finished()) turn();
  client_.close();  // it reads standard error only then, and a long report would wait for that
  return report();
}

bool Relay::finished() const {
  return roots_.ended() && (agents_.none() || roots_.ended_for(Clock::now()) >= kAgentsEnd);
}

void Relay::turn() {
  const std::array<Watched, 2> others = {
      {{client_.wanted(), [this] { read_client(); }}, {{parent_.get(), POLLIN, 0}, [this] {
                                                         parent_.reset();
                                                         stop();
                                                       }}}};
  Supervisor::turn(others, true, TimePoint::max());
  start_programs();
  client_.flush();
  if (client_.unsent() < kMostUnsent) agents_.take_more();
  if (stopping_ && running_.empty() && !agents_.none()) {
    agents_.hang_up_all();
    roots_.end_at(Clock::now() + kStartersEnd);  // one of a frozen host does not end by itself
  }
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
      return start(message.rank, read<Start>(message));
    case MessageType::kSignal:
      return agents_.tell(message.rank, read<Signal>(message));
    default:
      ByteReader::malformed("no program started with --relay sends such a message");
  }
}

// Once all agents are there: only then it is known which hosts they are on.
void Relay::start_programs() {
  const std::vector<HostFacts> facts = agents_.facts();
  if (!places_.empty() || facts.empty()) return;
  places_ = rank_variables(plan_.agents, facts, plan_.meeting);
  for (Message& message : std::exchange(early_, {})) obey(std::move(message));
}

void Relay::start(int rank, const Start& asked) {
  if (rank < 0 || std::cmp_greater_equal(rank, places_.size())) {
    ByteReader::malformed("there is no such rank");
  }
  Environment place = places_[static_cast<std::size_t>(rank)];
  place[kMarkVariable] = engine::random_hex(32);
  for (const std::string& variable : split_joined(asked.environment)) {
    // Where its engines meet is the caller's affair; hvdrun only knows the place of several hosts.
    if (variable.starts_with("HVD_RENDEZVOUS")) place.erase(variable.substr(0, variable.find('=')));
  }
  Start run = program(place, false, asked.environment);
  run.process = asked.process;
  if (stopping_ || !agents_.start(rank, run)) {
    client_.say(ProgramEnd{.kind = EndKind::kLost}, rank);
    return client_.say(Done{}, rank);
  }
  running_.insert(rank);
}

void Relay::on_event(const AgentEvent& event) {
  if (const auto* output = std::get_if<RankOutput>(&event)) {
    keep(output->rank, output->output.stream, output->output.bytes);
    client_.say(output->output, output->rank);
  } else if (const auto* end = std::get_if<RankEnd>(&event)) {
    client_.say(end->end, end->rank);
  } else {
    const int rank = std::get<RankDone>(event).rank;
    running_.erase(rank);
    client_.say(Done{}, rank);
  }
}

void Relay::on_signal(int signal) {
  if (is_stop_signal(signal)) stop();
}

void Relay::on_starter_end() {
  // Without one of the hosts no rank starts; and nothing is left that would end ranks.
  if (places_.empty() ? roots_.over() : roots_.ended()) stop();
}

void Relay::on_starter_output(std::size_t number, Stream stream, const std::string& bytes) {
  // Before the ranks start and when they end, only what explains a failure is worth reading.
  if (options_.verbose || (!places_.empty() && !stopping_)) return say(bytes, stream);
  hold(number, bytes);
}

void Relay::stop() {
  if (std::exchange(stopping_, true)) return;
  agents_.stop(SIGKILL);
  roots_.end_at(agents_.any_came() ? Clock::now() + kAgentsEnd : Clock::now());
}

int Relay::report() {
  if (roots_.exit_code() == 0) return 0;
  std::string text;
  for (const std::string& said : held_) text += said;
  text += starter_failures("");
  if (places_.empty()) text += address_advice(options_.hosts);
  std::fputs(text.c_str(), stderr);
  return 1;
}

}  // namespace

int run_relay(const Options& options, const LaunchContext& context) {
  return Relay(options, context).run();
}

}  // namespace hvd::runner
