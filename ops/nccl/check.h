#pragma once

#include <nccl.h>

namespace hvd {

// Throws PeerLostError with NCCL's text unless `code` is ncclSuccess or ncclInProgress: our
// communicators do not block, NcclCommunicator::settled() tells when a call is over. Every return
// code of NCCL goes through here. `communicator` may be null.
void check_nccl(ncclResult_t code, const char* call, ncclComm_t communicator = nullptr);

}  // namespace hvd
