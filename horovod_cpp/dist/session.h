#pragma once

#include <memory>

#include "horovod_cpp/dist/world.h"

namespace hvd {

// The process-wide job, as in Horovod. All of these may be called from any thread.

// Finds the other ranks and connects to them; collective. A program that no launcher started is a
// world of one. Does nothing while initialised; may be called again after shutdown(). Throws
// InvalidArgumentError on a malformed HOROVOD_* variable, UnsupportedError when a launcher started
// this process that cannot be understood, StalledError naming who did not come within
// HOROVOD_START_TIMEOUT seconds.
void init();

// Leaves in order: what is complete on all ranks still runs, the rest fails with AbortedError here
// and on the other ranks. Does nothing when not initialised. Also called at exit, unless the exit
// status is a failure: then the other ranks lose this one.
void shutdown();

bool is_initialized();

// Where this process stands: among all ranks, among those of its host (local), and among those with
// its local_rank on all hosts (cross). Throw InvalidArgumentError before init().
int rank();
int size();
int local_rank();
int local_size();
int cross_rank();
int cross_size();

// The ranks behind the functions of this folder. Throws InvalidArgumentError before init(). The
// pointer keeps the engine alive while a call uses it, even if another thread shuts down.
std::shared_ptr<World> world();

}  // namespace hvd
