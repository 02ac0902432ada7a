#include "ops/cuda/check.h"

#include <string>

#include "core/base/status.h"

namespace hvd {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw PeerLostError(std::string(call) + ": " + cudaGetErrorString(code) + " (" +
                      cudaGetErrorName(code) + ")");
}

}  // namespace hvd
