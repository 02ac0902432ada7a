#include "runner/output/report.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "core/base/topology.h"

namespace hvd::runner {
namespace {

std::string hint(const ProgramEnd& end, const std::string& program) {
  const bool is_path = program.find('/') != std::string::npos;
  if (end.value == ENOENT && !is_path) {
    return "; it is not in PATH (a program in this folder is ./" + program + ")";
  }
  if (end.value == EACCES)
    return "; is it executable? (chmod +x, or start it with its interpreter)";
  return "";
}

std::string ended_with_success(std::span<const int> ranks, const std::string& when) {
  return describe_ranks(ranks) + when + " with exit code 0\n";
}

std::string in_seconds(Duration time) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", std::max(to_seconds(time), 0.1));
  return text.data();
}

// Whoever left without a failure before `first` may be why that failed; so may be who left a little
// after it, if that is known to have failed because of another rank.
std::string others_that_ended(std::span<const RankEnd> ends, const RankEnd& first) {
  std::vector<int> before;
  std::vector<int> after;
  TimePoint latest{};
  for (const RankEnd& each : ends) {
    if (is_failure(each) || each.end.was_stopped) continue;
    const bool earlier = each.at <= first.at;
    if (earlier) latest = std::max(latest, each.at);
    (earlier ? before : after).push_back(each.rank);
  }
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  std::string text;
  if (!before.empty()) {
    text += "hvdrun: " +
            ended_with_success(before, " had ended " + in_seconds(first.at - latest) + " before");
  }
  if (!after.empty() && first.end.after_loss) {
    // A rank leaves before its process ends: if none had ended, one of these is the cause.
    text += before.empty() ? "hvdrun: it failed because another rank had left the job; " +
                                 ended_with_success(after, " ended")
                           : "hvdrun: " + ended_with_success(after, " ended after it");
  }
  return text;
}

std::string recordings(std::span<const RankEnd> ends, const RankEnd& first) {
  const bool own = first.end.kind == EndKind::kExited && first.end.recording.empty();
  if (own) return "";
  std::map<std::string, std::vector<int>> ranks;  // by folder
  std::set<std::string> hosts;
  for (const RankEnd& each : ends) {
    if (each.end.recording.empty()) continue;
    ranks[each.end.recording].push_back(each.rank);
    hosts.insert(each.host);
  }
  std::string text;
  for (auto& [folder, of] : ranks) {
    std::sort(of.begin(), of.end());
    text += "hvdrun: the last operations of " + describe_ranks(of) + " are in " + folder +
            (hosts.size() > 1 ? " on their hosts" : "") + "\n";
  }
  return text;
}

}  // namespace

bool is_failure(const RankEnd& rank) {
  if (rank.end.was_stopped) return false;
  return rank.end.kind != EndKind::kExited || rank.end.value != 0;
}

const RankEnd* first_failure(std::span<const RankEnd> ends) {
  const auto order = [](const RankEnd& rank) { return std::pair(rank.end.after_loss, rank.at); };
  const RankEnd* first = nullptr;
  for (const RankEnd& rank : ends) {
    if (is_failure(rank) && (first == nullptr || order(rank) < order(*first))) first = &rank;
  }
  return first;
}

int exit_code(const RankEnd& rank) {
  switch (rank.end.kind) {
    case EndKind::kExited:
      return rank.end.value;
    case EndKind::kSignaled:
      return 128 + rank.end.value;
    case EndKind::kNotStarted:
      return rank.end.value == ENOENT ? 127 : 126;
    case EndKind::kLost:
      break;
  }
  return 1;
}

std::string describe_end(const RankEnd& rank, const std::string& program) {
  switch (rank.end.kind) {
    case EndKind::kExited:
      return "exit code " + std::to_string(rank.end.value);
    case EndKind::kSignaled:
      return "killed by " + signal_name(rank.end.value);
    case EndKind::kNotStarted:
      return "could not start '" + program + "': " + std::strerror(rank.end.value) +
             hint(rank.end, program);
    case EndKind::kLost:
      break;
  }
  if (rank.end.value == 0) return "its hvdrun agent vanished (killed, or its host is lost)";
  return "its hvdrun agent did not answer for " +
         seconds_text(std::chrono::milliseconds(rank.end.value)) +
         " (it is stopped, or its host is lost)";
}

std::string failure_report(std::span<const RankEnd> ends, int np, const std::string& program,
                           const std::deque<std::string>* last_lines) {
  const RankEnd* first = first_failure(ends);
  if (first == nullptr) return "";
  std::string text = "hvdrun: rank " + std::to_string(first->rank) + " of " + std::to_string(np) +
                     " failed first, on host " + first->host + ": " +
                     describe_end(*first, program) + "\n" + others_that_ended(ends, *first);
  std::string others;
  for (const RankEnd& end : ends) {
    if (&end == first || !is_failure(end)) continue;
    others += (others.empty() ? "" : "; ") + ("rank " + std::to_string(end.rank)) + ": " +
              describe_end(end, program);
  }
  if (!others.empty()) text += "hvdrun: after it: " + others + "\n";
  text += recordings(ends, *first);
  if (last_lines == nullptr) return text;
  if (last_lines->empty()) {
    return text + "hvdrun: rank " + std::to_string(first->rank) + " printed nothing\n";
  }
  text += "hvdrun: the last lines of rank " + std::to_string(first->rank) + ":\n";
  for (const std::string& line : *last_lines) text += "    " + line + "\n";
  return text;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

}  // namespace hvd::runner
