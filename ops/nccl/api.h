#pragma once

#include <nccl.h>

#include <string>

namespace hvd::engine {

// The functions of NCCL that are used: those of the library found at run time, or a test's.
struct NcclApi {
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;
  decltype(&::ncclGetLastError) get_last_error = nullptr;

  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&::ncclCommSplit) comm_split = nullptr;
  decltype(&::ncclCommShrink) comm_shrink = nullptr;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&::ncclCommFinalize) comm_finalize = nullptr;
  decltype(&::ncclCommDestroy) comm_destroy = nullptr;
  decltype(&::ncclCommAbort) comm_abort = nullptr;

  // These may be missing; all four or none.
  decltype(&::ncclMemAlloc) mem_alloc = nullptr;
  decltype(&::ncclMemFree) mem_free = nullptr;
  decltype(&::ncclCommRegister) comm_register = nullptr;
  decltype(&::ncclCommDeregister) comm_deregister = nullptr;

  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclReduce) reduce = nullptr;
  decltype(&::ncclBroadcast) broadcast = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) recv = nullptr;
  decltype(&::ncclRedOpCreatePreMulSum) red_op_create_pre_mul_sum = nullptr;
  decltype(&::ncclRedOpDestroy) red_op_destroy = nullptr;

  bool has_registration() const { return mem_alloc != nullptr; }
};

// Throws PeerLostError with NCCL's text unless `code` is ncclSuccess or ncclInProgress: our
// communicators do not block, NcclCommunicator::settled() tells when a call is over. Every return
// code of NCCL goes through here. `communicator` may be null.
void check_nccl(const NcclApi& api, ncclResult_t code, const char* call,
                ncclComm_t communicator = nullptr);

// "2.28.9" of 22809, as NCCL counts.
std::string nccl_version_text(int version);

// A library of NCCL, opened for as long as the process lives.
struct NcclFile {
  const NcclApi* api = nullptr;  // nullptr: `detail` says why
  std::string detail;            // else its version and where it is
};

// Opens `file`, as dlopen() finds it. A library that is older than the header this was built with,
// or of another major version, is refused: the detail names both versions.
NcclFile open_nccl(const std::string& file);

// Opens, the first time, libnccl.so.2: one that the process has loaded, the system's, or that of
// NVIDIA's Python package beside ours.
const NcclFile& nccl_file();

}  // namespace hvd::engine
