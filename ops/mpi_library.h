#pragma once

#include <string>

#include "ops/mpi/module.h"

namespace hvd {

// The MPI module as found at run time.
struct MpiLibrary {
  MpiModule* module = nullptr;  // lives as long as the process; nullptr: `detail` says why
  std::string detail;           // where it is, and MPI's version
};

// Opens libhvd_mpi.so the first time: next to the file that holds this code or the program, in
// their lib/horovod_cpp, in `build_folder`, or where the linker looks (rpath, LD_LIBRARY_PATH).
const MpiLibrary& mpi_library(const std::string& build_folder);

}  // namespace hvd
