#include "ops/nccl/check.h"

#include <string>

#include "core/base/status.h"

namespace hvd {

void check_nccl(ncclResult_t code, const char* call, ncclComm_t communicator) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  std::string text = std::string(call) + ": " + ncclGetErrorString(code);
  const char* last = ncclGetLastError(communicator);
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  throw PeerLostError(text);
}

}  // namespace hvd
