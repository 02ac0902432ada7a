#include "runner/job.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/system/host.h"
#include "runner/agents.h"
#include "runner/link/connection.h"
#include "runner/link/reception.h"
#include "runner/link/wire.h"
#include "runner/output/output.h"
#include "runner/output/output_writer.h"
#include "runner/output/report.h"
#include "runner/output/tracebacks.h"
#include "runner/process.h"
#include "runner/rank_files.h"
#include "runner/start_report.h"
#include "runner/stdin_pump.h"

namespace hvd::runner {
namespace {

// After a rank's failure the others have this long to notice it, say what they know and save what
// they can; who still runs then is stopped.
constexpr Duration kSurvivorsEnd = std::chrono::seconds(3);
// If it failed because of another rank, that one has this long to end and to say how.
constexpr Duration kCauseEnds = std::chrono::seconds(10);
// Agents kill their program 5 s after a stop; mpirun gets a moment more, then is ended, then
// killed.
constexpr Duration kAgentsEnd = std::chrono::milliseconds(6500);
constexpr Duration kMpirunEnds = std::chrono::milliseconds(1500);
constexpr Duration kLastWords = std::chrono::seconds(7);  // agents may outlive mpirun that long
// Of a reader that does not read, when the job was asked to end.
constexpr Duration kReaderReads = std::chrono::seconds(2);
constexpr std::size_t kReadOnce = 1 << 16;
constexpr std::size_t kMostHeld = 1 << 18;  // bytes of mpirun's messages

class Job {
 public:
  Job(const Options& options, const LaunchContext& context);
  int run();

 private:
  void start(const LaunchContext& context);
  void turn();
  TimePoint wakes_at() const;
  bool finished() const;
  void admit(Reception::Agent agent);
  void note(const AgentEvent& event);
  void note_end(const RankEnd& end);
  void relay_starter(UniqueFd& fd, Stream stream);
  void release_held();
  void on_signal();
  void suspend();
  void reap();
  void stop(int signal);
  void enforce_stop();
  void enforce_start();
  void print(int rank, Stream stream, std::string_view bytes);
  void say(const std::string& text) { writer_.write(Stream::kStderr, text); }
  void write_out();
  int conclude();
  int verdict();
  int report_start_failure();

  const Options& options_;
  const bool remote_;
  UniqueFd signals_;
  UniqueFd stop_signals_;
  Agents agents_;
  Reception reception_;
  StdinPump stdin_;
  OutputWriter writer_;
  OutputPrinter printer_;
  Tracebacks tracebacks_;
  std::vector<RankEnd> ends_;
  RankFiles files_;
  Duration start_timeout_{};
  TimePoint start_deadline_ = TimePoint::max();  // until all agents came
  std::string not_started_;                      // what to say about those who did not come
  std::string starter_;                          // of the ranks: "mpirun", ...
  RootProcesses roots_;
  UniqueFd starter_out_;
  UniqueFd starter_err_;
  std::string held_;  // what mpirun said while we may know better
  int caught_signal_ = 0;
  std::optional<TimePoint> stop_at_;    // after a failure: when the other ranks are stopped
  int stop_signal_ = 0;                 // what agents were told; 0 = nothing yet
  bool cut_short_ = false;              // ranks were told to end before they had
  std::optional<TimePoint> next_blow_;  // when enforce_stop() goes on
  int blows_ = 0;
  TimePoint roots_ended_{};
};

Listener listen_for_agents(const Options& options, const LaunchContext& context) {
  const std::string interfaces = chosen_interfaces(rank_environment(options, context));
  return Listener(listening_addresses(may_be_remote(options, context), interfaces));
}

Job::Job(const Options& options, const LaunchContext& context)
    : options_(options),
      remote_(may_be_remote(options, context)),
      signals_(watch_signals()),
      stop_signals_(watch_stop_signals()),
      agents_(options.np),
      reception_(listen_for_agents(options, context), options.np,
                 link_timeout(rank_environment(options, context)),
                 [this](int rank) { return agents_.expects(rank); }),
      printer_(OutputWriter::one_place(), options.timestamps ? wall_clock : OutputPrinter::Stamp{}),
      tracebacks_(options.np),
      files_(options.output_folder, options.np) {
  start(context);
}

void Job::start(const LaunchContext& context) {
  const LaunchPlan plan = make_launch_plan(options_, context, to_string(reception_.address()),
                                           "unix:hvdrun-" + random_hex(32));
  starter_ = plan.by_mpirun ? "mpirun" : "an agent of hvdrun";
  for (const std::string& warning : plan.warnings) {
    say("hvdrun: warning: " + warning + "\n");
  }
  if (options_.verbose) {
    std::string line = "hvdrun: " + join_words(plan.commands[0].argv);
    if (!plan.by_mpirun) line += " (" + std::to_string(plan.commands.size()) + " times)";
    say(line + "\n");
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
  const bool quiet = agents_.none() && !starter_out_ && !starter_err_;
  return quiet || Clock::now() >= roots_ended_ + kLastWords;
}

TimePoint Job::wakes_at() const {
  TimePoint until = Clock::now() + std::chrono::seconds(1);
  if (const auto due = printer_.due()) until = std::min(until, *due);
  if (const auto due = tracebacks_.due()) until = std::min(until, *due);
  if (stop_at_) until = std::min(until, *stop_at_);
  if (next_blow_) until = std::min(until, *next_blow_);
  if (roots_.ended()) until = std::min(until, roots_ended_ + kLastWords);
  return std::min({until, start_deadline_, reception_.next_deadline(), agents_.next_deadline()});
}

void Job::turn() {
  const bool room = writer_.has_room();  // else the ranks and mpirun have to wait with their output
  std::vector<pollfd> polls = {{signals_.get(), POLLIN, 0},
                               {writer_.changed(), POLLIN, 0},
                               {room ? starter_out_.get() : -1, POLLIN, 0},
                               {room ? starter_err_.get() : -1, POLLIN, 0},
                               stdin_.wanted()};
  const std::size_t fixed = polls.size();
  agents_.add_polls(polls);
  const std::size_t known = polls.size();
  reception_.add_polls(polls);
  poll(polls.data(), polls.size(), milliseconds_until(wakes_at()));
  const std::span all(polls);
  const TimePoint now = Clock::now();
  for (Reception::Agent& agent : reception_.serve(all.subspan(known), now)) {
    admit(std::move(agent));
  }
  for (const AgentEvent& event : agents_.serve(all.subspan(fixed, known - fixed), now)) note(event);
  if (stop_signal_ != 0 || std::cmp_equal(ends_.size(), options_.np)) agents_.hang_up();
  agents_.tick(now);
  if (polls[1].revents != 0) writer_.acknowledge();
  if (polls[2].revents != 0) relay_starter(starter_out_, Stream::kStdout);
  if (polls[3].revents != 0) relay_starter(starter_err_, Stream::kStderr);
  if (polls[4].revents != 0) stdin_.move();
  if (polls[0].revents != 0) on_signal();
  tracebacks_.flush_due(now);
  printer_.flush_due(now);
  write_out();
  if (writer_.has_room()) agents_.take_more();
  enforce_start();
  enforce_stop();
}

void Job::admit(Reception::Agent agent) {
  agents_.welcome(std::move(agent), Clock::now());
  // Nobody is left who would end it.
  if (stop_signal_ == 0 && roots_.over()) stop(SIGTERM);
  if (!agents_.missing().empty()) return;
  start_deadline_ = TimePoint::max();
  if (stop_signal_ == 0) release_held();  // it has no better explanation any more
}

void Job::note(const AgentEvent& event) {
  if (const auto* output = std::get_if<RankOutput>(&event)) {
    print(output->rank, output->output.stream, output->output.bytes);
  } else if (const auto* end = std::get_if<RankEnd>(&event)) {
    note_end(*end);
  } else {
    tracebacks_.rank_done(std::get<RankDone>(event).rank, Clock::now());
  }
}

void Job::note_end(const RankEnd& end) {
  ends_.push_back(end);
  if (!is_failure(end) || stop_signal_ != 0) return;
  const TimePoint limit = Clock::now() + (end.end.after_loss ? kCauseEnds : kSurvivorsEnd);
  stop_at_ = std::min(stop_at_.value_or(limit), limit);
}

void Job::relay_starter(UniqueFd& fd, Stream stream) {
  std::string bytes;
  if (!read_available(fd.get(), bytes, kReadOnce)) fd.reset();
  // About a job that does not start, or how it ended, mpirun has only guesses; we may know.
  const bool starting = !agents_.missing().empty();
  const bool ending = stop_signal_ != 0 || first_failure(ends_) != nullptr;
  if ((starting || ending) && !options_.verbose) {
    held_.append(bytes, 0, kMostHeld - std::min(kMostHeld, held_.size()));
  } else {
    print(OutputPrinter::kLauncher, stream, bytes);
  }
}

void Job::release_held() {
  print(OutputPrinter::kLauncher, Stream::kStderr, std::exchange(held_, {}));
}

void Job::on_signal() {
  while (const int signal = read_signal(signals_.get())) {
    if (signal == SIGCHLD) {
      reap();
    } else if (is_stop_signal(signal)) {
      // Who asks twice does not want to wait.
      stop(caught_signal_ == 0 ? signal : SIGKILL);
      if (caught_signal_ == 0) caught_signal_ = signal;
    } else {
      agents_.pass_on(signal);
      if (signal == SIGTSTP) suspend();
    }
  }
}

// Until SIGCONT, which is passed on as it comes. That time counts for nothing.
void Job::suspend() {
  const TimePoint before = Clock::now();
  kill(getpid(), SIGSTOP);
  if (start_deadline_ != TimePoint::max()) start_deadline_ += Clock::now() - before;
}

void Job::reap() {
  int status = 0;
  while (const pid_t pid = waitpid(-1, &status, WNOHANG)) {
    if (pid < 0) return;
    if (!roots_.note_end(pid, status)) continue;  // an agent that outlived mpirun
    if (roots_.ended()) roots_ended_ = Clock::now();
    if (roots_.ended() && !agents_.any_came()) roots_.kill_orphans();
    // Ranks that outlived mpirun would run for ever, and those without one of theirs wait for it.
    if (roots_.over() && !agents_.none() && stop_signal_ == 0) stop(SIGTERM);
  }
}

void Job::stop(int signal) {
  stop_at_.reset();
  if (stop_signal_ == 0) next_blow_ = Clock::now() + kAgentsEnd;
  cut_short_ |= std::cmp_less(ends_.size(), options_.np);
  // Before the first agent is here only what we started can be told.
  if (!agents_.any_came() || signal == SIGKILL) next_blow_ = Clock::now();
  stop_signal_ = signal;
  agents_.stop(signal);
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
  not_started_ = late_start_report(agents_.missing(), options_.np, start_timeout_, remote_);
  stop(SIGTERM);
}

void Job::print(int rank, Stream stream, std::string_view bytes) {
  const std::string trouble = files_.write(rank, stream, bytes);
  if (!trouble.empty()) say("hvdrun: " + trouble + "\n");
  if (rank != OutputPrinter::kLauncher && stream == Stream::kStderr) {
    tracebacks_.feed(rank, bytes, Clock::now());
  } else {
    printer_.feed(rank, stream, bytes, Clock::now());
  }
  write_out();
}

void Job::write_out() {
  for (const Tracebacks::Piece& piece : tracebacks_.take()) {
    if (piece.ranks.size() == 1) {
      printer_.feed(piece.ranks[0], Stream::kStderr, piece.text, Clock::now());
    } else {
      printer_.feed_shared(piece.ranks, Stream::kStderr, piece.text);
    }
  }
  for (OutputPrinter::Chunk& chunk : printer_.take()) {
    writer_.write(chunk.stream, std::move(chunk.text));
  }
  if (stop_signal_ == 0 && !writer_.trouble().empty()) stop(SIGTERM);
  if (!writer_.reader_left() || caught_signal_ != 0) return;
  caught_signal_ = SIGPIPE;  // as any program whose reader has left
  stop(SIGTERM);
}

int Job::conclude() {
  tracebacks_.finish();
  write_out();
  printer_.finish();
  write_out();
  const int code = verdict();
  writer_.drain(stop_signals_.get(),
                caught_signal_ != 0 ? std::optional(kReaderReads) : std::nullopt);
  if (!writer_.trouble().empty()) say("hvdrun: " + writer_.trouble() + "\n");
  return code == 0 && !writer_.trouble().empty() ? 1 : code;
}

int Job::verdict() {
  if (const RankEnd* first = first_failure(ends_)) {
    say(failure_report(
        ends_, options_.np, options_.command[0],
        printer_.on_screen(first->rank) ? nullptr : &printer_.last_lines(first->rank)));
    return exit_code(*first);
  }
  if (!writer_.trouble().empty()) return 1;  // conclude() says which
  if (!not_started_.empty()) return report_start_failure();
  if (caught_signal_ != 0) {
    say("hvdrun: stopped by " + signal_name(caught_signal_) + "\n");
    return 128 + caught_signal_;
  }
  // mpirun also fails for programs that did not finalize MPI, as none does after an engine's error.
  const bool all_ended = std::cmp_equal(ends_.size(), options_.np);
  if (all_ended && (roots_.exit_code() == 0 || !cut_short_)) return 0;
  if (roots_.exit_code() != 0) return report_start_failure();
  say("hvdrun: " + starter_ + " ended, but only " + std::to_string(ends_.size()) + " of " +
      std::to_string(options_.np) + " ranks said how they ended\n");
  return 1;
}

// A machine without an address explains all that mpirun says of it, at length.
int Job::report_start_failure() {
  const std::string advice = address_advice(options_.hosts);
  const bool hidden = !advice.empty() && !held_.empty();
  if (!hidden) release_held();
  printer_.finish();
  write_out();
  if (!not_started_.empty()) {
    say(not_started_ + advice);
    return 1;
  }
  const std::string without_mpirun = starter_ == "mpirun" && !remote_ ? kWithoutMpirun : "";
  say(failed_start_report(starter_, roots_.exit_code(), hidden, advice + without_mpirun));
  return roots_.exit_code();
}

}  // namespace

int run_job(const Options& options, const LaunchContext& context) {
  return Job(options, context).run();
}

}  // namespace hvd::runner
