#include "ops/cuda/check.h"

#include <string>

#include "core/base/status.h"

namespace hvd::engine {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // or the next launch would seem to have failed
  throw PeerLostError(std::string(call) + ": " + cudaGetErrorString(code) + " (" +
                      cudaGetErrorName(code) + ")");
}

}  // namespace hvd::engine
