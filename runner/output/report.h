#pragma once

#include <deque>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "runner/link/wire.h"

namespace hvd::runner {

// How one rank ended.
struct RankEnd {
  int rank = 0;
  std::string host;
  TimePoint at;  // on hvdrun's clock
  ProgramEnd end;
};

// True for an end that is a rank's own failure: not exit code 0, and not an answer to our stop.
bool is_failure(const RankEnd& rank);

// The failure that the others followed from; null when none failed. A rank whose job had ended
// because of another rank counts only if all that failed are such; otherwise the first in time.
const RankEnd* first_failure(std::span<const RankEnd> ends);

// What a shell would say: the exit code, 128 + signal, 127 (not found) or 126 (not executable).
int exit_code(const RankEnd& rank);

// "exit code 3", "killed by SIGKILL", "could not start './x': No such file or directory".
std::string describe_end(const RankEnd& rank, const std::string& program);

// The block hvdrun ends with: first failing rank, how, who had ended before without a failure,
// which others failed, where ranks left their last operations (unless the cause is the program's
// own: then they tell nothing), its last lines. `last_lines`: null = they can still be seen.
std::string failure_report(std::span<const RankEnd> ends, int np, const std::string& program,
                           const std::deque<std::string>* last_lines);

// "SIGTERM"; "signal 99" for numbers without a name.
std::string signal_name(int signal);

}  // namespace hvd::runner
