#pragma once

#include <string>
#include <vector>

#include "ops/nccl/api.h"

namespace hvd::engine::test {

// nccl_on_host.cc has the functions of NCCL that ops/nccl calls, for ranks that are threads or
// processes of one machine, with a GPU each that host_cuda.cc has: what one of them enqueues waits
// on its stream for the others, and is computed as on the host, in rank order (nccl_board.h). Calls
// are taken as NCCL takes those of communicators that do not block: in the background, a few looks
// later. Linked into a test, or as libnccl.so.2 for programs that open the module over
// host_cuda.cc.

const NcclApi& nccl_on_host();
// What NCCL would not forgive, since the last call; it is written to standard error, too. Calls
// that do not belong together also fail.
std::vector<std::string> take_nccl_problems();

}  // namespace hvd::engine::test
