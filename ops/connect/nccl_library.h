#pragma once

#include <string>

#include "ops/nccl/module.h"

namespace hvd {

// The NCCL module as found at run time.
struct NcclLibrary {
  NcclModule* module = nullptr;  // lives as long as the process; nullptr: `detail` says why
  std::string detail;            // else where it is
};

// Opens libhvd_nccl.so the first time, as open_module() finds it.
const NcclLibrary& nccl_library();

}  // namespace hvd
