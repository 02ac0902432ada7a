#pragma once

#include "core/config/config.h"
#include "core/config/launch_info.h"

namespace hvd::engine {

// For a rank that hvdrun started without mpirun; nothing happens under others. Throws
// UnsupportedError if the program uses MPI itself: MPI is initialised in this process, or the
// program is linked with it. MPI would see a world of one in every rank. That MPI is merely loaded,
// by a library of torch's, is no sign. Not with HOROVOD_CONTROLLER=gloo, by which the user says
// that MPI has nothing to do with the job.
void refuse_programs_of_mpi(const LaunchInfo& launch, const Config& config);

}  // namespace hvd::engine
