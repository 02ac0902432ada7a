// Run by CMake for HVD_ISA=native: prints the widest level of kernels that this processor runs.
#include <cstdio>

#include "core/base/isa.h"

int main() {
  std::fputs(hvd::name_of(hvd::best_isa()), stdout);
}
