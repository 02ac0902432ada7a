#include "runner/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"
#include "core/system/host.h"

namespace hvd::runner {
namespace {

constexpr std::size_t kReadOnce = 1 << 16;
constexpr std::size_t kMostHeld = 1 << 16;  // bytes of what one command said

// Where the agents connect.
Reception open_reception(const Options& options, const LaunchContext& context,
                         Reception::Expects expects) {
  const Environment environment = rank_environment(options, context);
  return {listening_addresses(may_be_remote(options, context), chosen_interfaces(environment)),
          port_range(environment),
          options.manual.key_file.empty() ? engine::random_hex(64)
                                          : read_key_file(options.manual.key_file, true),
          ranks_of_agents(options, context).size(),
          link_timeout(environment),
          std::move(expects)};
}

// What to do about what ssh or a shell said; "" if that is not known.
std::string launcher_advice(std::string_view said, const std::string& host, int code) {
  const auto has = [&](const char* words) { return said.find(words) != std::string_view::npos; };
  if (has("Host key verification failed")) {
    return "hvdrun: 'ssh " + host + "' by hand shows its key and remembers it\n";
  }
  if (has("Permission denied (")) {
    return "hvdrun: ssh must ask for no password there: 'ssh-copy-id " + host + "'\n";
  }
  if (code == 127) return "hvdrun: hvdrun has to be at the same path on every host\n";
  return "";
}

}  // namespace

Supervisor::Supervisor(const Options& options, const LaunchContext& context)
    : options_(options),
      signals_(watch_signals()),
      agents_(ranks_of_agents(options, context), link_timeout(rank_environment(options, context))),
      reception_(
          open_reception(options, context, [this](int rank) { return agents_.expects(rank); })),
      plan_(make_launch_plan(options, context, to_string(reception_.address()),
                             "unix:hvdrun-" + engine::random_hex(32))),
      files_(options.output_folder, options.np, agents_.first_rank(),
             static_cast<int>(agents_.ranks())) {}

std::pair<UniqueFd, std::string> Supervisor::start_agents() {
  for (const std::string& warning : plan_.warnings) say("hvdrun: warning: " + warning + "\n");
  if (options_.verbose) {
    for (const LaunchCommand& each : plan_.commands) say("hvdrun: " + join_words(each.argv) + "\n");
  }
  Pipe in = make_pipe();
  // Agents that outlive what started them become our children, and we can reap them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  starter_output_ = roots_.start(plan_, in.read_end.get());
  const std::string& address = plan_.agent_address;
  return {std::move(in.write_end), address.empty() ? "" : address + "\n"};
}

void Supervisor::turn(std::span<const Watched> others, bool hears_starters, TimePoint until) {
  std::vector<pollfd> polls = {{signals_.get(), POLLIN, 0}};
  for (const Watched& each : others) polls.push_back(each.wanted);
  const std::size_t starters = polls.size();
  for (const UniqueFd& fd : starter_output_) {
    polls.push_back({hears_starters ? fd.get() : -1, POLLIN, 0});
  }
  const std::size_t fixed = polls.size();
  agents_.add_polls(polls);
  const std::size_t known = polls.size();
  reception_.add_polls(polls);
  poll(polls.data(), polls.size(), engine::milliseconds_until(std::min(until, next_deadline())));
  const std::span all(polls);
  const TimePoint now = Clock::now();
  for (Reception::Agent& agent : reception_.serve(all.subspan(known), now)) {
    agents_.welcome(std::move(agent), now);
    on_agent();
  }
  for (const AgentEvent& event : agents_.serve(all.subspan(fixed, known - fixed), now)) {
    on_event(event);
  }
  agents_.tick(now);
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (polls[1 + i].revents != 0) others[i].serve();
  }
  for (std::size_t i = 0; i < starter_output_.size(); ++i) {
    if (polls[starters + i].revents == 0) continue;
    UniqueFd& fd = starter_output_[i];
    std::string bytes;
    if (!read_available(fd.get(), bytes, kReadOnce)) fd.reset();
    on_starter_output(i / 2, i % 2 == 0 ? Stream::kStdout : Stream::kStderr, bytes);
  }
  if (polls[0].revents != 0) read_signals();
  roots_.enforce_end(now);
}

TimePoint Supervisor::next_deadline() const {
  return std::min({Clock::now() + std::chrono::seconds(1), roots_.next_deadline(),
                   reception_.next_deadline(), agents_.next_deadline()});
}

void Supervisor::read_signals() {
  while (const int signal = read_signal(signals_.get())) {
    if (signal == SIGCHLD) {
      reap();
    } else {
      on_signal(signal);
    }
  }
}

void Supervisor::reap() {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (!roots_.note_end(pid, status)) continue;  // an agent that outlived mpirun
    if (roots_.ended() && !agents_.any_came()) roots_.kill_orphans();
    on_starter_end();
  }
}

Start Supervisor::program(const Environment& place, bool on_terminal,
                          const std::string& chosen) const {
  const auto joined = [](const Environment& variables) {
    std::vector<std::string> all;
    for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
    return join(all);
  };
  // Of a variable that comes twice the last value counts.
  return {.command = join(options_.command),
          .environment = joined(plan_.exported) + chosen + joined(place),
          .folder = plan_.folder,
          .on_terminal = on_terminal};
}

void Supervisor::keep(int rank, Stream stream, std::string_view bytes) {
  const std::string trouble = files_.write(rank, stream, bytes);
  if (!trouble.empty()) say("hvdrun: " + trouble + "\n");
}

void Supervisor::hold(std::size_t number, std::string_view bytes) {
  held_.resize(plan_.commands.size());
  held_[number] += bytes.substr(0, kMostHeld - std::min(kMostHeld, held_[number].size()));
}

std::string Supervisor::starter_failures(std::string_view where_it_is) const {
  std::string text;
  for (const auto& [command, code] : roots_.failures()) {
    text += str_cat("hvdrun: ", starter_of(plan_, command), " failed with exit code ", code,
                    where_it_is, "\n");
    const std::string& host = plan_.commands[command].host;
    if (host.empty() || command >= held_.size()) continue;
    const std::string advice = launcher_advice(held_[command], host, code);
    if (text.find(advice) == std::string::npos) text += advice;  // some holds for all hosts
  }
  return text;
}

std::string starter_of(const LaunchPlan& plan, std::size_t number) {
  if (plan.by_mpirun) return "mpirun";
  const LaunchCommand& command = plan.commands[number];
  if (command.host.empty()) return "an agent of hvdrun";
  return "host " + command.host + ": " + command.argv[0];
}

std::string address_advice(std::span<const HostSlots> hosts) {
  const std::string unknown = hosts_without_address(hosts);
  if (unknown.empty()) return "";
  return "hvdrun: this machine knows no address of " + unknown +
         ": correct the name after -H, or tell DNS, /etc/hosts or ~/.ssh/config what it means\n";
}

}  // namespace hvd::runner
