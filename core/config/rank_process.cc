#include "core/config/rank_process.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/system/fork_guard.h"

namespace hvd {
namespace {

std::string text(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "?";
}

// Equal for two processes only if one has it from the other.
std::string place_of(const LaunchInfo& launch) {
  std::string place = launch.launcher + " " + text(launch.rank) + "/" + text(launch.size);
  for (const char* name : {"HVD_RENDEZVOUS", "MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE",
                           "PMI_JOBID", "PMI_FD", "SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    if (const auto value = environment(name)) place += " " + *value;
  }
  return place;
}

}  // namespace

void take_place(const LaunchInfo& launch) {
  static std::optional<std::uint32_t> taken;  // by this process or one that forked it: when
  if (taken) throw_if_forked(*taken);
  const std::string mine = std::to_string(getpid());
  const std::string place = place_of(launch);
  const std::string mark = environment(kRankProcessVariable).value_or("");
  const std::string taker = mark.substr(0, mark.find(' '));
  if (!taker.empty() && taker != mine && mark == taker + " " + place) {
    throw InvalidArgumentError("this process was started by rank " + text(launch.rank) + " (pid " +
                               taker +
                               ") and inherited its place; a rank is one process. HVD_WORLD=self "
                               "gives this one a world of its own; Python's multiprocessing "
                               "imports the main script again, whose init() belongs below "
                               "if __name__ == \"__main__\"");
  }
  setenv(kRankProcessVariable, (mine + " " + place).c_str(), 1);
  taken = fork_generation();
}

}  // namespace hvd
