#pragma once

#include <string>

#include "horovod_cpp/distributed/collectives/process_set.h"

namespace hvd {

// One rank's misfit is everybody's error, so that nobody waits for what never comes: throws
// MismatchError on every rank of the set, "<what>: <misfit>", when any rank's misfit is not empty
// (that of the lowest such rank). Collective; blocks.
void agree(const std::string& what, const std::string& misfit, const ProcessSet& process_set);

}  // namespace hvd
