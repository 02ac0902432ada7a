#include "ops/nccl/api.h"

#include "core/base/status.h"

namespace hvd::engine {

void check_nccl(const NcclApi& api, ncclResult_t code, const char* call, ncclComm_t communicator) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  std::string text = std::string(call) + ": " + api.get_error_string(code);
  const char* last = api.get_last_error(communicator);
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  throw PeerLostError(text);
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace hvd::engine
