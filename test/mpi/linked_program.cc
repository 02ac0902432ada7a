// A program that is linked with MPI and leaves its start to init().
#include <cstdio>

#include <mpi.h>

#include "core/base/status.h"
#include "core/config/config.h"
#include "ops/connect/backends.h"

int main() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  try {
    const hvd::engine::Ports ports = hvd::engine::connect(hvd::read_config());
    std::printf("%d ranks, MPI was %s\n", ports.control->topology().size,
                initialized != 0 ? "initialized" : "not initialized");
  } catch (const hvd::Error& error) {
    std::printf("%s\n", error.what());
    return 3;
  }
  return 0;
}
