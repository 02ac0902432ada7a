#include "runner/report.h"

#include <cerrno>
#include <csignal>
#include <cstring>

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

}  // namespace

bool is_failure(const RankEnd& rank) {
  if (rank.end.was_stopped) return false;
  return rank.end.kind != EndKind::kExited || rank.end.value != 0;
}

const RankEnd* first_failure(std::span<const RankEnd> ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd& rank : ends) {
    if (is_failure(rank) && (first == nullptr || rank.end.time < first->end.time)) first = &rank;
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
  return "its hvdrun agent vanished (killed, or its host is lost)";
}

std::string failure_report(std::span<const RankEnd> ends, int np, const std::string& program,
                           const std::deque<std::string>& last_lines) {
  const RankEnd* first = first_failure(ends);
  if (first == nullptr) return "";
  std::string text = "hvdrun: rank " + std::to_string(first->rank) + " of " + std::to_string(np) +
                     " failed first, on host " + first->host + ": " +
                     describe_end(*first, program) + "\n";
  std::string others;
  for (const RankEnd& end : ends) {
    if (&end == first || !is_failure(end)) continue;
    others += (others.empty() ? "" : "; ") + ("rank " + std::to_string(end.rank)) + ": " +
              describe_end(end, program);
  }
  if (!others.empty()) text += "hvdrun: after it: " + others + "\n";
  if (last_lines.empty()) {
    return text + "hvdrun: rank " + std::to_string(first->rank) + " printed nothing\n";
  }
  text += "hvdrun: the last lines of rank " + std::to_string(first->rank) + ":\n";
  for (const std::string& line : last_lines) text += "    " + line + "\n";
  return text;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

}  // namespace hvd::runner
