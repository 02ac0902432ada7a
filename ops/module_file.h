#pragma once

#include <string>

namespace hvd {

// A part of this build that is opened at run time, because what it links may be missing.
struct ModuleSpec {
  const char* file;              // "libhvd_mpi.so"
  const char* symbol;            // the function that gives its interface
  std::string build_folder;      // where it was built; empty = unknown
  const char* how_to_get;        // for whoever has no such file
  bool symbols_for_all = false;  // what it links shows its symbols to everything opened later
};

struct ModuleFile {
  void* function = nullptr;  // nullptr: `detail` says why
  std::string detail;        // else where the file is
};

// Looks next to the file that holds this code or the program, in their lib/horovod_cpp, in the
// build folder, and where the linker looks (rpath, LD_LIBRARY_PATH). Stays open for ever.
ModuleFile open_module(const ModuleSpec& spec);

}  // namespace hvd
