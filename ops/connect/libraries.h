#pragma once

#include <string>

#include "ops/mpi/module.h"
#include "ops/nccl/module.h"

namespace hvd::engine {

// A part of this build that is opened at run time, because what it links may be missing.
struct ModuleSpec {
  const char* file;              // "libhvd_mpi.so"
  const char* symbol;            // the function that gives its interface
  const char* build_symbol;      // the function that gives its build_identity()
  const char* how_to_get;        // for whoever has no such file
  bool symbols_for_all = false;  // what it links shows its symbols to everything opened later
};

struct ModuleFile {
  void* function = nullptr;  // nullptr: `detail` says why
  std::string detail;        // else where the file is
};

// Looks where a package or an install tree has the module of the file that holds this code: beside
// it, or in the lib folder next to its bin. Then where the linker looks: the rpath, which the build
// tree and find_package(horovod_cpp) give to programs, and LD_LIBRARY_PATH. A file that another
// user than root, this one, and the owner of the file that holds this code could have put there is
// not opened, nor one of another build. What is opened stays open.
ModuleFile open_module(const ModuleSpec& spec);

// A module as found at run time.
template <typename Module>
struct Library {
  Module* module = nullptr;  // lives as long as the process; nullptr: `detail` says why
  std::string detail;        // else where it is, and MPI's version
};
using MpiLibrary = Library<MpiModule>;
using NcclLibrary = Library<NcclModule>;

// Opens libhvd_mpi.so, libhvd_nccl.so the first time, as open_module() finds them.
const MpiLibrary& mpi_library();
const NcclLibrary& nccl_library();

}  // namespace hvd::engine
