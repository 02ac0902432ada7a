#include "test/gpu/logic/nccl_on_host.h"

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/half.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/host_streams.h"
#include "test/gpu/logic/nccl_host_state.h"

using namespace hvd::engine::test;  // NOLINT: what NCCL's header declares is defined here

namespace {

thread_local int depth = 0;
thread_local std::vector<NcclRequest> grouped;

void launch(const std::shared_ptr<std::vector<NcclRequest>>& calls) {
  enqueue(calls->front().stream, [calls] {
    const std::lock_guard lock(nccl_host().mutex);
    bool done = true;
    for (NcclRequest& call : *calls) done &= attempt(call);
    return done;
  });
}

ncclResult_t end_group() {
  if (--depth > 0) return ncclSuccess;
  auto calls = std::make_shared<std::vector<NcclRequest>>(std::exchange(grouped, {}));
  if (calls->empty()) return ncclSuccess;
  const std::lock_guard lock(nccl_host().mutex);
  ncclComm& comm = *calls->front().comm;
  if (!comm.connected || comm.looks != 0)
    note_problem("a call was begun before the last one was taken");
  for (NcclRequest& call : *calls) {
    if (call.stream->device != comm.device) note_problem("a call on a stream of another device");
    if (!call.peer) call.number = comm.calls++;
  }
  comm.looks = kNcclLooks;
  comm.launches.push_back([calls] { launch(calls); });
  return ncclInProgress;
}

ncclResult_t add_call(NcclRequest call) {
  ++depth;
  grouped.push_back(std::move(call));
  return end_group();
}

ncclResult_t collective(NcclKind kind, ncclComm_t handle, cudaStream_t stream, const void* from,
                        void* to, NcclPost post) {
  post.kind = kind;
  CommPtr comm;
  {
    const std::lock_guard lock(nccl_host().mutex);
    comm = communicator_of(handle);
    if (post.op >= ncclNumOps) {
      post.scale = comm->scales.at(static_cast<std::size_t>(post.op - ncclNumOps));
      post.op = ncclNumOps;
    }
  }
  return add_call(
      {.comm = std::move(comm), .stream = stream, .from = from, .to = to, .post = post});
}

ncclResult_t point_to_point(ncclComm_t handle, cudaStream_t stream, const void* from, void* to,
                            int peer, const NcclPost& post) {
  std::unique_lock lock(nccl_host().mutex);
  NcclRequest call{.comm = communicator_of(handle),
                   .stream = stream,
                   .from = from,
                   .to = to,
                   .post = post,
                   .peer = peer};
  lock.unlock();
  return add_call(std::move(call));
}

double scalar_of(const void* scalar, ncclDataType_t type) {
  if (type == ncclFloat64) return *static_cast<const double*>(scalar);
  if (type == ncclFloat32) return *static_cast<const float*>(scalar);
  if (type == ncclFloat16) return hvd::to_float(*static_cast<const hvd::Float16*>(scalar));
  return hvd::to_float(*static_cast<const hvd::BFloat16*>(scalar));
}

}  // namespace

namespace hvd::engine::test {

const NcclApi& nccl_on_host() {
  static const NcclApi api = {
      .get_version = ncclGetVersion,
      .get_error_string = ncclGetErrorString,
      .get_last_error = ncclGetLastError,
      .get_unique_id = ncclGetUniqueId,
      .comm_init_rank_config = ncclCommInitRankConfig,
      .comm_split = ncclCommSplit,
      .comm_shrink = ncclCommShrink,
      .comm_get_async_error = ncclCommGetAsyncError,
      .comm_finalize = ncclCommFinalize,
      .comm_destroy = ncclCommDestroy,
      .comm_abort = ncclCommAbort,
      .mem_alloc = ncclMemAlloc,
      .mem_free = ncclMemFree,
      .comm_register = ncclCommRegister,
      .comm_deregister = ncclCommDeregister,
      .group_start = ncclGroupStart,
      .group_end = ncclGroupEnd,
      .all_reduce = ncclAllReduce,
      .reduce_scatter = ncclReduceScatter,
      .reduce = ncclReduce,
      .broadcast = ncclBroadcast,
      .all_gather = ncclAllGather,
      .send = ncclSend,
      .recv = ncclRecv,
      .red_op_create_pre_mul_sum = ncclRedOpCreatePreMulSum,
      .red_op_destroy = ncclRedOpDestroy,
  };
  return api;
}

std::vector<std::string> take_nccl_problems() {
  const std::lock_guard lock(nccl_host().mutex);
  return std::exchange(nccl_host().problems, {});
}

}  // namespace hvd::engine::test

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclInvalidUsage ? "invalid usage" : "an error of NCCL on the host";
}
const char* ncclGetLastError(ncclComm_t handle) {
  const std::lock_guard lock(nccl_host().mutex);
  const auto found = nccl_host().communicators.find(handle);
  return found == nccl_host().communicators.end() ? "" : found->second->text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  auto board = NcclBoard::make();
  if (board == nullptr) return ncclSystemError;
  write_name(board->name(), *id);
  const std::lock_guard lock(nccl_host().mutex);
  nccl_host().boards.push_back(std::move(board));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0 || size > NcclBoard::kMostRanks) return ncclInvalidArgument;
  const auto board = NcclBoard::open(read_name(id));
  if (board == nullptr) return ncclSystemError;
  CommPtr made = make_communicator(rank, size);
  made->board = board;
  board->join(rank, made->bus);
  const std::lock_guard lock(nccl_host().mutex);
  *out = add_communicator(std::move(made));
  return ncclInProgress;
}
ncclResult_t ncclCommSplit(ncclComm_t parent, int, int, ncclComm_t* out, ncclConfig_t*) {
  const std::lock_guard lock(nccl_host().mutex);
  return divide(*communicator_of(parent), {}, out);
}
ncclResult_t ncclCommShrink(ncclComm_t parent, int* without, int count, ncclComm_t* out,
                            ncclConfig_t*, int) {
  const std::lock_guard lock(nccl_host().mutex);
  return divide(*communicator_of(parent), {without, without + count}, out);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  std::vector<std::function<void()>> launches;
  {
    const std::lock_guard lock(nccl_host().mutex);
    ncclComm& comm = *communicator_of(handle);
    const bool ready = comm.error == ncclSuccess && (comm.connected || connect(comm));
    *state = comm.error != ncclSuccess ? comm.error : ncclInProgress;
    if (!ready || (comm.looks > 0 && --comm.looks > 0)) return ncclSuccess;
    *state = ncclSuccess;
    launches.swap(comm.launches);
  }
  for (const auto& launch_call : launches) launch_call();
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const std::lock_guard lock(nccl_host().mutex);
  if (!communicator_of(handle)->registered.empty()) {
    note_problem("a communicator was destroyed before its memory was deregistered");
  }
  nccl_host().communicators.erase(handle);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const std::lock_guard lock(nccl_host().mutex);
  communicator_of(handle)->aborted = true;
  nccl_host().communicators.erase(handle);
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** data, size_t bytes) {
  if (bytes > host_cuda().memory_limit) return ncclUnhandledCudaError;
  auto block = SharedBlock::make(bytes);
  if (block == nullptr) return ncclUnhandledCudaError;
  *data = block->data();
  const std::lock_guard lock(nccl_host().mutex);
  nccl_host().memory[*data] = std::move(block);
  return ncclSuccess;
}
// Does not wait for the device.
ncclResult_t ncclMemFree(void* data) {
  const std::lock_guard lock(nccl_host().mutex);
  for (const auto& [handle, comm] : nccl_host().communicators) {
    if (comm->registered.contains(static_cast<std::byte*>(data))) {
      note_problem("memory was freed while it was registered");
    }
  }
  return nccl_host().memory.erase(data) == 1 ? ncclSuccess : ncclInvalidArgument;
}
ncclResult_t ncclCommRegister(ncclComm_t handle, void* data, size_t bytes, void** made) {
  const std::lock_guard lock(nccl_host().mutex);
  ncclComm& comm = *communicator_of(handle);
  if (comm.looks != 0) note_problem("memory was registered during a call");
  comm.registered[static_cast<std::byte*>(data)] = bytes;
  *made = data;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t handle, void* made) {
  const std::lock_guard lock(nccl_host().mutex);
  ncclComm& comm = *communicator_of(handle);
  if (comm.looks != 0) note_problem("memory was deregistered during a call");
  if (comm.registered.erase(static_cast<std::byte*>(made)) == 0) {
    note_problem("memory was deregistered that was not registered");
  }
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return end_group();
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(NcclKind::kAllReduce, comm, stream, from, to,
                    {.count = count, .type = type, .op = op});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(NcclKind::kReduceScatter, comm, stream, from, to,
                    {.count = count, .type = type, .op = op});
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(NcclKind::kReduce, comm, stream, from, to,
                    {.count = count, .type = type, .op = op, .root = root});
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(NcclKind::kBroadcast, comm, stream, from, to,
                    {.count = count, .type = type, .root = root});
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(NcclKind::kAllGather, comm, stream, from, to, {.count = count, .type = type});
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return point_to_point(comm, stream, from, nullptr, peer, {.count = count, .type = type});
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return point_to_point(comm, stream, nullptr, to, peer, {.count = count, .type = type});
}
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t, ncclComm_t handle) {
  const std::lock_guard lock(nccl_host().mutex);
  ncclComm& comm = *communicator_of(handle);
  comm.scales.push_back(scalar_of(scalar, type));
  *op = static_cast<ncclRedOp_t>(ncclNumOps + comm.scales.size() - 1);
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) {
  return ncclSuccess;
}

}  // extern "C"
