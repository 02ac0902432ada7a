#pragma once

#include "core/config/launch_info.h"

// A rank's place in its job is in variables of its launcher, which every process that the rank
// starts inherits. There it must not be taken a second time: MPI would abort, and ranks would meet
// the wrong process. So the process that takes a place leaves a mark for those that inherit it.
namespace hvd {

// Names the process that took the place, and the place: one that differs was given to the process
// itself, by a launcher of its own.
inline constexpr const char* kRankProcessVariable = "HVD_RANK_PROCESS";

// This process takes the place that `launch` describes. The first call sets kRankProcessVariable;
// any number may follow, also after exec(). Throws InvalidArgumentError if a process that
// started this one has taken the place, AbortedError if one that forked it has.
void take_place(const LaunchInfo& launch);

}  // namespace hvd
