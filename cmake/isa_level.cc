// Run by CMake for HVD_ISA=native: prints the widest level of kernels that this processor runs.
#include <cstdio>

#include "horovod_cpp/tensor/cpu_dispatch/processor.h"

int main() {
  for (const char* level : {"v4", "v3", "baseline"}) {
    if (!hvd::isa::runs_here(level)) continue;
    std::fputs(level, stdout);
    return 0;
  }
}
