#include "runner/job.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <list>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "runner/hosts.h"
#include "runner/listener.h"
#include "runner/output.h"
#include "runner/process.h"
#include "runner/rank_files.h"
#include "runner/report.h"
#include "runner/root_processes.h"
#include "runner/stdio.h"
#include "runner/wall_clock.h"
#include "runner/wire.h"

namespace hvd::runner {
namespace {

// After a rank's failure the others have this long to notice it, say what they know and save what
// they can; who still runs then is stopped.
constexpr Duration kSurvivorsEnd = std::chrono::seconds(3);
// Agents kill their program 5 s after a stop; mpirun gets a moment more, then is ended, then
// killed.
constexpr Duration kAgentsEnd = std::chrono::milliseconds(6500);
constexpr Duration kMpirunEnds = std::chrono::milliseconds(1500);
constexpr Duration kLastWords = std::chrono::seconds(7);  // agents may outlive mpirun that long
constexpr std::size_t kReadOnce = 1 << 16;

// For a job that did not start. Only then: ssh may know machines by names of its own.
std::string advice_on(std::span<const HostSlots> hosts) {
  const std::string unknown = hosts_without_address(hosts);
  if (unknown.empty()) return "";
  return "hvdrun: this machine knows no address of " + unknown +
         ": correct the name after -H, or tell DNS, /etc/hosts or ~/.ssh/config what it means\n";
}

struct Peer {
  UniqueFd fd;
  MessageReader reader;
  int rank = -1;  // until it said hello with the right key
  std::string host;
  bool ended = false;
};

class Job {
 public:
  Job(const Options& options, const LaunchContext& context);
  int run();

 private:
  void start(const LaunchContext& context);
  void turn();
  int wait_time() const;
  bool finished() const;
  void serve(Peer& peer);
  void handle(Peer& peer, const Message& message);
  void welcome(Peer& peer, const Hello& hello);
  void record_end(Peer& peer, const ProgramEnd& end);
  void relay_starter(UniqueFd& fd, Stream stream);
  void on_signal();
  void reap();
  void stop(int signal);
  void send_stop(Peer& peer);
  void enforce_stop();
  void enforce_start();
  void print(int rank, Stream stream, std::string_view bytes);
  void write_out();
  int conclude();

  const Options& options_;
  UniqueFd signals_;
  Listener listener_;
  StdinPump stdin_;
  OutputWriter writer_;
  OutputPrinter printer_;
  std::list<Peer> peers_;
  std::vector<RankEnd> ends_;
  std::vector<bool> seen_;  // by rank: its agent said hello
  RankFiles files_;
  Duration start_timeout_{};
  TimePoint start_deadline_ = TimePoint::max();  // until all are seen
  std::string not_started_;                      // what to say about those who did not come
  std::string starter_;                          // of the ranks: "mpirun", ...
  RootProcesses roots_;
  UniqueFd starter_out_;
  UniqueFd starter_err_;
  std::string held_;  // what mpirun said after a failure that we report better
  int caught_signal_ = 0;
  std::optional<TimePoint> stop_at_;    // after a failure: when the other ranks are stopped
  int stop_signal_ = 0;                 // what agents were told; 0 = nothing yet
  std::optional<TimePoint> next_blow_;  // when enforce_stop() goes on
  int blows_ = 0;
  TimePoint roots_ended_{};
};

Job::Job(const Options& options, const LaunchContext& context)
    : options_(options),
      signals_(watch_signals()),
      listener_(may_be_remote(options, context)),
      writer_(watch_stop_signals()),
      printer_(writer_.one_terminal(), options.timestamps ? wall_clock : OutputPrinter::Stamp{}),
      seen_(static_cast<std::size_t>(options.np), false),
      files_(options.output_folder, options.np) {
  start(context);
}

void Job::start(const LaunchContext& context) {
  const LaunchPlan plan = make_launch_plan(options_, context, to_string(listener_.address()),
                                           "unix:hvdrun-" + random_key());
  starter_ = plan.by_mpirun ? "mpirun" : "an agent of hvdrun";
  for (const std::string& warning : plan.warnings) {
    writer_.write(Stream::kStderr, "hvdrun: warning: " + warning + "\n");
  }
  if (options_.verbose) {
    std::string line = "hvdrun:";
    for (const std::string& word : plan.commands[0].argv) line += " " + word;
    if (!plan.by_mpirun) line += " (" + std::to_string(plan.commands.size()) + " times)";
    writer_.write(Stream::kStderr, line + "\n");
  }
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  // Agents that outlive who started them become our children, and we can reap them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  roots_.start(plan, in.read_end.get(), out.write_end.get(), err.write_end.get());
  start_timeout_ = plan.start_timeout;
  start_deadline_ = Clock::now() + start_timeout_;
  stdin_.connect(std::move(in.write_end));
  starter_out_ = std::move(out.read_end);
  starter_err_ = std::move(err.read_end);
  set_nonblocking(starter_out_.get());
  set_nonblocking(starter_err_.get());
}

int Job::run() {
  while (!finished()) turn();
  return conclude();
}

bool Job::finished() const {
  if (!roots_.ended()) return false;
  const bool quiet = peers_.empty() && !starter_out_ && !starter_err_;
  return quiet || Clock::now() >= roots_ended_ + kLastWords;
}

int Job::wait_time() const {
  TimePoint until = Clock::now() + std::chrono::seconds(1);
  if (const auto due = printer_.due()) until = std::min(until, *due);
  if (stop_at_) until = std::min(until, *stop_at_);
  if (next_blow_) until = std::min(until, *next_blow_);
  until = std::min(until, start_deadline_);
  if (roots_.ended()) until = std::min(until, roots_ended_ + kLastWords);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void Job::turn() {
  std::vector<pollfd> polls = {{signals_.get(), POLLIN, 0},
                               {listener_.fd(), POLLIN, 0},
                               {starter_out_.get(), POLLIN, 0},
                               {starter_err_.get(), POLLIN, 0},
                               stdin_.wanted()};
  const std::size_t fixed = polls.size();
  for (const Peer& peer : peers_) polls.push_back({peer.fd.get(), POLLIN, 0});
  poll(polls.data(), polls.size(), wait_time());
  std::size_t at = fixed;
  for (Peer& peer : peers_) {
    if (polls[at++].revents != 0) serve(peer);
  }
  std::erase_if(peers_, [](const Peer& peer) { return !peer.fd; });
  if (polls[1].revents != 0) {
    if (UniqueFd fd = listener_.accept()) peers_.emplace_back().fd = std::move(fd);
  }
  if (polls[2].revents != 0) relay_starter(starter_out_, Stream::kStdout);
  if (polls[3].revents != 0) relay_starter(starter_err_, Stream::kStderr);
  if (polls[4].revents != 0) stdin_.move();
  if (polls[0].revents != 0) on_signal();
  printer_.flush_due(Clock::now());
  write_out();
  enforce_start();
  enforce_stop();
}

void Job::serve(Peer& peer) {
  std::string bytes;
  const bool alive = read_available(peer.fd.get(), bytes, kReadOnce);
  bool broken = false;
  try {
    peer.reader.feed(std::as_bytes(std::span(bytes)));
    while (const auto message = peer.fd ? peer.reader.next() : std::nullopt) handle(peer, *message);
  } catch (const PeerLostError& error) {
    broken = true;  // a stranger on our port, or an agent of another version
  }
  if (alive && !broken) return;
  if (peer.rank >= 0 && !peer.ended) {
    const bool stopping = stop_signal_ != 0;
    record_end(peer, {EndKind::kLost, 0, stopping, system_time()});
  }
  peer.fd.reset();
}

void Job::handle(Peer& peer, const Message& message) {
  if (peer.rank < 0) return welcome(peer, read_hello(message));
  switch (message.type) {
    case MessageType::kOutput: {
      const Output output = read_output(message);
      return print(peer.rank, output.stream, output.bytes);
    }
    case MessageType::kEnd:
      return record_end(peer, read_end(message));
    case MessageType::kHello:
    case MessageType::kStop:
      ByteReader::malformed("agents send output and their end");
  }
}

void Job::welcome(Peer& peer, const Hello& hello) {
  if (hello.key != listener_.address().key) ByteReader::malformed("a stranger's key");
  if (hello.rank < 0 || hello.rank >= options_.np || seen_[static_cast<std::size_t>(hello.rank)]) {
    ByteReader::malformed("rank");
  }
  seen_[static_cast<std::size_t>(hello.rank)] = true;
  peer.rank = hello.rank;
  peer.host = hello.host;
  if (stop_signal_ != 0) send_stop(peer);
  if (std::find(seen_.begin(), seen_.end(), false) == seen_.end()) {
    start_deadline_ = TimePoint::max();
  }
}

void Job::record_end(Peer& peer, const ProgramEnd& end) {
  peer.ended = true;
  peer.fd.reset();  // the agent waits for this
  ends_.push_back({peer.rank, peer.host, end});
  if (is_failure(ends_.back()) && stop_signal_ == 0 && !stop_at_)
    stop_at_ = Clock::now() + kSurvivorsEnd;
}

void Job::relay_starter(UniqueFd& fd, Stream stream) {
  std::string bytes;
  if (!read_available(fd.get(), bytes, kReadOnce)) fd.reset();
  // About the end of a job mpirun has only guesses, and the report has what happened.
  const bool ending = stop_signal_ != 0 || first_failure(ends_) != nullptr;
  if (ending && !options_.verbose) {
    held_ += bytes;
  } else {
    print(OutputPrinter::kLauncher, stream, bytes);
  }
}

void Job::on_signal() {
  while (const int signal = read_signal(signals_.get())) {
    if (signal != SIGCHLD) {
      // Who asks twice does not want to wait.
      stop(caught_signal_ == 0 ? signal : SIGKILL);
      if (caught_signal_ == 0) caught_signal_ = signal;
      continue;
    }
    reap();
  }
}

void Job::reap() {
  int status = 0;
  while (const pid_t pid = waitpid(-1, &status, WNOHANG)) {
    if (pid < 0) return;
    if (!roots_.note_end(pid, status)) continue;  // an agent that outlived mpirun
    if (roots_.ended()) roots_ended_ = Clock::now();
    // Ranks that outlived mpirun would run for ever, and those without one of theirs wait for it.
    const bool over = roots_.ended() || roots_.exit_code() != 0;
    if (over && !peers_.empty() && stop_signal_ == 0) stop(SIGTERM);
  }
}

void Job::stop(int signal) {
  stop_at_.reset();
  if (stop_signal_ == 0) next_blow_ = Clock::now() + kAgentsEnd;
  // Before the first agent is here only what we started can be told.
  const bool nobody = std::none_of(seen_.begin(), seen_.end(), [](bool seen) { return seen; });
  if (nobody || signal == SIGKILL) next_blow_ = Clock::now();
  stop_signal_ = signal;
  for (Peer& peer : peers_) {
    if (peer.rank >= 0 && !peer.ended) send_stop(peer);
  }
}

void Job::send_stop(Peer& peer) {
  Bytes bytes;
  append(bytes, Stop{stop_signal_});
  // A few bytes into an empty socket; an agent that is gone shows as the end of its stream.
  [[maybe_unused]] const auto sent =
      ::send(peer.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The job has to end: first what we started is asked, then its whole groups are killed.
void Job::enforce_stop() {
  if (stop_at_ && Clock::now() >= *stop_at_) stop(SIGTERM);
  if (!next_blow_ || Clock::now() < *next_blow_ || roots_.ended()) return;
  roots_.signal(blows_ == 0 ? SIGTERM : SIGKILL);
  ++blows_;
  next_blow_ = Clock::now() + kMpirunEnds;
}

// mpirun may wait for a machine for ever.
void Job::enforce_start() {
  if (Clock::now() < start_deadline_) return;
  start_deadline_ = TimePoint::max();
  if (stop_signal_ != 0 || roots_.ended()) return;
  std::string missing;
  for (std::size_t rank = 0; rank < seen_.size(); ++rank) {
    if (!seen_[rank]) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%g", to_seconds(start_timeout_));
  not_started_ = "hvdrun: not started after " + std::string(seconds.data()) + " s: rank " +
                 missing + " of " + std::to_string(options_.np) +
                 "; can this machine reach theirs with ssh, and they this one? --verbose shows "
                 "mpirun's command, --start-timeout (HOROVOD_START_TIMEOUT) gives them more time\n";
  stop(SIGTERM);
}

void Job::print(int rank, Stream stream, std::string_view bytes) {
  const std::string trouble = files_.write(rank, stream, bytes);
  if (!trouble.empty()) writer_.write(Stream::kStderr, "hvdrun: " + trouble + "\n");
  printer_.feed(rank, stream, bytes, Clock::now());
  write_out();
}

void Job::write_out() {
  for (const OutputPrinter::Chunk& chunk : printer_.take()) {
    if (!writer_.write(chunk.stream, chunk.text) && caught_signal_ == 0) {
      caught_signal_ = SIGPIPE;  // as any program whose reader has left
      stop(SIGTERM);
    }
  }
}

int Job::conclude() {
  const RankEnd* first = first_failure(ends_);
  const bool starter_failed =
      first == nullptr && caught_signal_ == 0 && not_started_.empty() && roots_.exit_code() != 0;
  if (starter_failed) print(OutputPrinter::kLauncher, Stream::kStderr, held_);
  printer_.finish();
  write_out();
  if (first != nullptr) {
    writer_.write(Stream::kStderr, failure_report(ends_, options_.np, options_.command[0],
                                                  printer_.last_lines(first->rank)));
    return exit_code(*first);
  }
  if (!not_started_.empty()) {
    writer_.write(Stream::kStderr, not_started_ + advice_on(options_.hosts));
    return 1;
  }
  if (caught_signal_ != 0) {
    writer_.write(Stream::kStderr, "hvdrun: stopped by " + signal_name(caught_signal_) + "\n");
    return 128 + caught_signal_;
  }
  if (starter_failed) {
    writer_.write(Stream::kStderr, "hvdrun: " + starter_ + " failed with exit code " +
                                       std::to_string(roots_.exit_code()) +
                                       "; its messages are above\n" + advice_on(options_.hosts));
    return roots_.exit_code();
  }
  if (ends_.size() == seen_.size()) return 0;
  writer_.write(Stream::kStderr, "hvdrun: " + starter_ + " ended, but only " +
                                     std::to_string(ends_.size()) + " of " +
                                     std::to_string(options_.np) + " ranks said how they ended\n");
  return 1;
}

}  // namespace

int run_job(const Options& options, const LaunchContext& context) {
  return Job(options, context).run();
}

}  // namespace hvd::runner
