#pragma once

#include <string>

#include "ops/mpi/module.h"

namespace hvd {

// The MPI module as found at run time.
struct MpiLibrary {
  MpiModule* module = nullptr;  // lives as long as the process; nullptr: `detail` says why
  std::string detail;           // where it is, and MPI's version
};

// Opens libhvd_mpi.so the first time, as open_module() finds it.
const MpiLibrary& mpi_library();

}  // namespace hvd
