#include "runner/job.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/base/topology.h"
#include "core/system/host.h"
#include "runner/output/output.h"
#include "runner/output/output_writer.h"
#include "runner/output/report.h"
#include "runner/supervisor.h"

namespace hvd::runner {
namespace {

// After a rank's failure the others have this long to notice it, say what they know and save what
// they can; those still running are then stopped.
constexpr Duration kSurvivorsEnd = std::chrono::seconds(3);
// If it failed because of another rank, that one has this long to end and to say how.
constexpr Duration kCauseEnds = std::chrono::seconds(10);
// Agents kill their program 5 s after a stop; mpirun gets a moment more, then is ended.
constexpr Duration kAgentsEnd = std::chrono::milliseconds(6500);
// An agent taken for lost may still have the output of what started it open.
constexpr Duration kLauncherQuiet = std::chrono::milliseconds(500);
constexpr Duration kAgentGrace = std::chrono::seconds(7);  // agents may outlive mpirun that long
// Of a reader that does not read, when the job was asked to end.
constexpr Duration kReaderReads = std::chrono::seconds(2);

class Job : Supervisor {
 public:
  Job(const Options& options, const LaunchContext& context);
  int run();

 private:
  void start_programs();
  void turn();
  bool finished() const;
  void on_agent() override;
  void on_event(const AgentEvent& event) override;
  void note_end(const RankEnd& end);
  void on_starter_output(std::size_t number, Stream stream, const std::string& bytes) override;
  void release_held();
  void on_signal(int signal) override;
  void suspend();
  void on_starter_end() override;
  void stop(int signal);
  void enforce_start();
  void print(int rank, Stream stream, std::string_view bytes);
  bool all_ended() const { return ends_.size() == agents_.ranks(); }
  void say(const std::string& text, Stream stream = Stream::kStderr) override {
    writer_.write(stream, text);
  }
  void check_reader();
  int conclude();
  int report_outcome();
  int report_start_failure();

  StdinPump stdin_;
  OutputWriter writer_;
  OutputPrinter printer_;
  Tracebacks tracebacks_;
  std::vector<RankEnd> ends_;
  TimePoint start_deadline_ = TimePoint::max();  // until all agents came
  std::string not_started_;                      // what to say about ranks that did not come
  int caught_signal_ = 0;
  TimePoint stop_at_ = TimePoint::max();  // after a failure: when the other ranks are stopped
  int stop_signal_ = 0;                   // what agents were told; 0 = nothing yet
  bool cut_short_ = false;                // ranks were told to end before they had
};

// Of the output of this command of the plan.
int launcher_number(std::size_t command) {
  return OutputPrinter::kLauncher - static_cast<int>(command);
}

Job::Job(const Options& options, const LaunchContext& context)
    : Supervisor(options, context),
      printer_(
          OutputWriter::one_place(),
          [this](Stream stream, std::string text) { writer_.write(stream, std::move(text)); },
          options.timestamps ? local_time : OutputPrinter::Stamp{}),
      tracebacks_(options.np, [this](std::span<const int> ranks, std::string_view text) {
        if (ranks.size() > 1) {
          printer_.feed_shared(ranks, Stream::kStderr, text);
        } else {
          printer_.feed(ranks[0], Stream::kStderr, text, Clock::now());
        }
      }) {
  for (std::size_t i = 0; i < plan_.commands.size(); ++i) {
    const std::string& host = plan_.commands[i].host;
    if (!host.empty()) printer_.name(launcher_number(i), "launcher " + host);
  }
  for (const LaunchCommand& each : plan_.by_hand) {
    say("hvdrun: on " + each.host + ": " + join_words(each.argv) + "\n");
  }
  auto [in, address] = start_agents();
  start_deadline_ = Clock::now() + plan_.start_timeout;
  stdin_.connect(std::move(in), std::move(address));
}

// Once all agents are there: only then it is known which hosts they are on.
void Job::start_programs() {
  const std::vector<HostFacts> facts = agents_.facts();
  if (facts.empty() || stop_signal_ != 0) return;
  std::vector<Start> programs;
  const bool by_nodes = !plan_.nodes.empty();
  for (const Environment& variables : rank_variables(
           by_nodes ? plan_.placed : plan_.agents, by_nodes ? plan_.nodes : facts, plan_.meeting)) {
    programs.push_back(program(variables, true, ""));
  }
  agents_.run(programs);
}

int Job::run() {
  while (!finished()) turn();
  return conclude();
}

bool Job::finished() const {
  if (!roots_.ended()) return false;
  if (roots_.none() && stop_signal_ == 0 && !agents_.missing().empty()) return false;
  const bool silent = std::none_of(starter_output_.begin(), starter_output_.end(),
                                   [](const UniqueFd& fd) { return static_cast<bool>(fd); });
  return (silent && agents_.none()) ||
         roots_.ended_for(Clock::now()) >= (agents_.none() ? kLauncherQuiet : kAgentGrace);
}

void Job::turn() {
  const std::array<Watched, 2> others = {
      {{{writer_.changed(), POLLIN, 0}, [this] { writer_.acknowledge(); }},
       {stdin_.wanted(), [this] { stdin_.move(); }}}};
  // Without room the ranks and mpirun have to wait with their output.
  Supervisor::turn(others, writer_.has_room(),
                   std::min({printer_.due(), tracebacks_.due(), stop_at_, start_deadline_}));
  start_programs();
  if (stop_signal_ != 0 || all_ended()) agents_.hang_up();
  const TimePoint now = Clock::now();
  tracebacks_.flush_due(now);
  printer_.flush_due(now);
  check_reader();
  if (writer_.has_room()) agents_.take_more();
  enforce_start();
  if (Clock::now() >= stop_at_) stop(SIGTERM);
}

void Job::on_agent() {
  // Nothing is left that would end it.
  if (stop_signal_ == 0 && roots_.over()) stop(SIGTERM);
  if (!agents_.missing().empty()) return;
  start_deadline_ = TimePoint::max();
  if (stop_signal_ == 0) release_held();  // it has no better explanation any more
}

void Job::on_event(const AgentEvent& event) {
  if (const auto* output = std::get_if<RankOutput>(&event)) {
    print(output->rank, output->output.stream, output->output.bytes);
  } else if (const auto* end = std::get_if<RankEnd>(&event)) {
    note_end(*end);
  } else if (const auto* done = std::get_if<RankDone>(&event)) {
    tracebacks_.rank_done(done->rank, Clock::now());
  }
}

void Job::note_end(const RankEnd& end) {
  ends_.push_back(end);
  cut_short_ |= end.end.was_stopped;  // also by an agent whose parent was killed
  if (!is_failure(end) || stop_signal_ != 0) return;
  const TimePoint limit = Clock::now() + (end.end.after_loss ? kCauseEnds : kSurvivorsEnd);
  stop_at_ = std::min(stop_at_, limit);
}

void Job::on_starter_output(std::size_t number, Stream stream, const std::string& bytes) {
  // About a job that does not start, or how it ended, mpirun has only guesses; we may know.
  const bool starting = !agents_.missing().empty();
  const bool ending = stop_signal_ != 0 || first_failure(ends_) != nullptr;
  if ((starting || ending) && !options_.verbose) {
    hold(number, bytes);
  } else {
    print(launcher_number(number), stream, bytes);
  }
}

void Job::release_held() {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const std::string said = std::exchange(held_[i], {});
    if (!said.empty()) print(launcher_number(i), Stream::kStderr, said);
  }
}

void Job::on_signal(int signal) {
  if (is_stop_signal(signal)) {
    // A user who asks twice does not want to wait.
    stop(caught_signal_ == 0 ? signal : SIGKILL);
    if (caught_signal_ == 0) caught_signal_ = signal;
  } else {
    agents_.pass_on(signal);
    if (signal == SIGTSTP) suspend();
  }
}

// Until SIGCONT, which is passed on as it comes. That time counts for nothing.
void Job::suspend() {
  const TimePoint before = Clock::now();
  kill(getpid(), SIGSTOP);
  if (start_deadline_ != TimePoint::max()) start_deadline_ += Clock::now() - before;
}

void Job::on_starter_end() {
  // Ranks that outlived mpirun would run forever, and those without one of theirs wait for it.
  if (roots_.over() && !agents_.none() && stop_signal_ == 0) stop(SIGTERM);
}

void Job::stop(int signal) {
  stop_at_ = TimePoint::max();
  if (stop_signal_ == 0) roots_.end_at(Clock::now() + kAgentsEnd);
  cut_short_ |= !all_ended();
  // Before the first agent is here only what we started can be told.
  if (!agents_.any_came() || signal == SIGKILL) roots_.end_at(Clock::now());
  stop_signal_ = signal;
  agents_.stop(signal);
}

// mpirun may wait for a machine forever.
void Job::enforce_start() {
  if (Clock::now() < start_deadline_) return;
  start_deadline_ = TimePoint::max();
  if (stop_signal_ != 0 || (roots_.ended() && !roots_.none())) return;
  not_started_ = "hvdrun: not started after " + seconds_text(plan_.start_timeout) + ": " +
                 describe_ranks(agents_.missing()) + " of " + std::to_string(options_.np) + "; " +
                 (plan_.remote ? "can this machine reach theirs with ssh, and they this one? "
                               : "is this machine too busy? ") +
                 "--verbose shows the command that starts them and its messages, --start-timeout "
                 "(HOROVOD_START_TIMEOUT) gives them more time\n";
  stop(SIGTERM);
}

void Job::print(int rank, Stream stream, std::string_view bytes) {
  keep(rank, stream, bytes);
  if (rank > OutputPrinter::kLauncher && stream == Stream::kStderr) {
    tracebacks_.feed(rank, bytes, Clock::now());
  } else {
    printer_.feed(rank, stream, bytes, Clock::now());
  }
}

void Job::check_reader() {
  if (stop_signal_ == 0 && !writer_.trouble().empty()) stop(SIGTERM);
  if (!writer_.reader_left() || caught_signal_ != 0) return;
  caught_signal_ = SIGPIPE;  // as any program whose reader has left
  stop(SIGTERM);
}

int Job::conclude() {
  tracebacks_.finish();
  printer_.finish();
  check_reader();
  const int code = report_outcome();
  writer_.drain(watch_stop_signals().get(),
                caught_signal_ != 0 ? std::optional(kReaderReads) : std::nullopt);
  if (!writer_.trouble().empty()) say("hvdrun: " + writer_.trouble() + "\n");
  return code == 0 && !writer_.trouble().empty() ? 1 : code;
}

int Job::report_outcome() {
  if (const RankEnd* first = first_failure(ends_)) {
    const auto lines = printer_.last_lines(first->rank);
    say(failure_report(ends_, options_.np, options_.command[0],
                       printer_.on_screen(first->rank) ? nullptr : &lines));
    return exit_code(*first);
  }
  if (!writer_.trouble().empty()) return 1;  // conclude() says which
  if (!not_started_.empty()) return report_start_failure();
  if (caught_signal_ != 0) {
    say("hvdrun: stopped by " + signal_name(caught_signal_) + "\n");
    return 128 + caught_signal_;
  }
  // mpirun also fails for programs that did not finalize MPI, as none does after an engine's error.
  if (all_ended() && (roots_.exit_code() == 0 || !cut_short_)) return 0;
  if (!roots_.failures().empty()) return report_start_failure();
  const std::string starter = roots_.none() ? "all agents" : starter_of(plan_, 0);
  say("hvdrun: " + starter + " ended, but only " + std::to_string(ends_.size()) + " of " +
      std::to_string(agents_.ranks()) + " ranks reported how they ended\n");
  return 1;
}

// A machine without an address explains all that mpirun says of it, at length.
int Job::report_start_failure() {
  const std::string advice = address_advice(options_.hosts);
  const bool hidden = !advice.empty() && !std::ranges::all_of(held_, &std::string::empty);
  const std::string failures =
      starter_failures(hidden ? "; --verbose shows its messages" : "; its messages are above");
  if (!hidden) release_held();
  printer_.finish();
  if (!not_started_.empty()) {
    say(not_started_ + failures + advice);
    return 1;
  }
  say(failures + advice);
  if (plan_.by_mpirun && !plan_.remote) {
    say("hvdrun: without --mpi, hvdrun starts the ranks of one machine itself\n");
  }
  return roots_.exit_code();
}

}  // namespace

int run_job(const Options& options, const LaunchContext& context) {
  return Job(options, context).run();
}

}  // namespace hvd::runner
