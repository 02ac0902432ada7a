#include "test/gpu/logic/fake_nccl.h"

#include <cstdlib>
#include <cstring>

#include "test/gpu/logic/host_cuda.h"

namespace hvd::engine::test {
namespace {

FakeNccl* fake = nullptr;

ncclComm_t some_communicator() {
  static char communicators[64];
  static std::size_t next = 0;
  return reinterpret_cast<ncclComm_t>(&communicators[next++ % sizeof communicators]);
}

ncclResult_t make(const char* name, ncclComm_t* communicator, const ncclConfig_t& config,
                  std::vector<int> without = {}, int peer = -1) {
  fake->blocking = config.blocking;
  *communicator = some_communicator();
  return fake->note({.name = name, .peer = peer, .without = std::move(without)});
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 1;
  }
}

ncclResult_t move(NcclCall call, cudaStream_t stream) {
  if (fake->copies && call.from != call.to && call.count != 0) {
    enqueue(stream, [to = call.to, from = call.from, bytes = call.count * bytes_of(call.type)] {
      std::memmove(to, from, bytes);
      return true;
    });
  }
  return fake->note(std::move(call));
}

double value_of(const void* scalar, ncclDataType_t type) {
  if (type == ncclFloat64) return *static_cast<const double*>(scalar);
  if (type == ncclFloat32) return *static_cast<const float*>(scalar);
  return *static_cast<const std::uint16_t*>(scalar);
}

void fill_communicators(NcclApi& api) {
  api.get_unique_id = [](ncclUniqueId* id) {
    std::memset(id->internal, 7, sizeof id->internal);
    return fake->note({.name = "ncclGetUniqueId"});
  };
  api.comm_init_rank_config = [](ncclComm_t* out, int, ncclUniqueId, int rank,
                                 ncclConfig_t* config) {
    return make("ncclCommInitRankConfig", out, *config, {}, rank);
  };
  api.comm_split = [](ncclComm_t, int, int, ncclComm_t* out, ncclConfig_t* config) {
    return make("ncclCommSplit", out, *config);
  };
  api.comm_shrink = [](ncclComm_t, int* without, int count, ncclComm_t* out, ncclConfig_t* config,
                       int) {
    return make("ncclCommShrink", out, *config, {without, without + count});
  };
  api.comm_get_async_error = [](ncclComm_t, ncclResult_t* state) {
    *state = fake->state;
    return ncclSuccess;
  };
  api.comm_finalize = [](ncclComm_t) { return fake->note({.name = "ncclCommFinalize"}); };
  api.comm_destroy = [](ncclComm_t) { return fake->note({.name = "ncclCommDestroy"}); };
  api.comm_abort = [](ncclComm_t) {
    host_cuda().stalled = false;  // the kernels end
    return fake->note({.name = "ncclCommAbort"});
  };
}

void fill_registration(NcclApi& api) {
  api.mem_alloc = [](void** data, std::size_t bytes) {
    *data = std::aligned_alloc(4096, bytes);
    return fake->note({.name = "ncclMemAlloc", .to = *data, .count = bytes});
  };
  api.mem_free = [](void* data) {
    const ncclResult_t result = fake->note({.name = "ncclMemFree", .to = data});
    std::free(data);
    return result;
  };
  api.comm_register = [](ncclComm_t, void* data, std::size_t bytes, void** handle) {
    *handle = fake->registers ? data : nullptr;
    return fake->note({.name = "ncclCommRegister", .to = data, .count = bytes});
  };
  api.comm_deregister = [](ncclComm_t, void* handle) {
    return fake->note({.name = "ncclCommDeregister", .to = handle});
  };
}

void fill_reductions(NcclApi& api) {
  api.all_reduce = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                      ncclRedOp_t op, ncclComm_t, cudaStream_t stream) {
    return move({"ncclAllReduce", from, to, count, type, op, -1, {}}, stream);
  };
  api.reduce_scatter = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                          ncclRedOp_t op, ncclComm_t, cudaStream_t stream) {
    return move({"ncclReduceScatter", from, to, count, type, op, -1, {}}, stream);
  };
  api.reduce = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                  ncclRedOp_t op, int root, ncclComm_t, cudaStream_t stream) {
    return move({"ncclReduce", from, to, count, type, op, root, {}}, stream);
  };
  api.red_op_create_pre_mul_sum = [](ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                     ncclScalarResidence_t, ncclComm_t) {
    *op = static_cast<ncclRedOp_t>(100);
    fake->scale = value_of(scalar, type);
    return fake->note({.name = "ncclRedOpCreatePreMulSum", .type = type});
  };
  api.red_op_destroy = [](ncclRedOp_t op, ncclComm_t) {
    return fake->note({.name = "ncclRedOpDestroy", .op = op});
  };
}

void fill_movement(NcclApi& api) {
  api.broadcast = [](const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                     ncclComm_t, cudaStream_t stream) {
    return move({"ncclBroadcast", from, to, count, type, ncclSum, root, {}}, stream);
  };
  api.all_gather = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                      ncclComm_t, cudaStream_t stream) {
    return move({"ncclAllGather", from, to, count, type, ncclSum, -1, {}}, stream);
  };
  api.send = [](const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t,
                cudaStream_t) {
    return fake->note({"ncclSend", from, nullptr, count, type, ncclSum, peer, {}});
  };
  api.recv = [](void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t,
                cudaStream_t) {
    return fake->note({"ncclRecv", nullptr, to, count, type, ncclSum, peer, {}});
  };
}

}  // namespace

FakeNccl::FakeNccl() {
  fake = this;
  reset_host_cuda();
  api_.get_version = [](int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  };
  api_.get_error_string = [](ncclResult_t) { return "NCCL's text"; };
  api_.get_last_error = [](ncclComm_t) { return "what NCCL noted"; };
  api_.group_start = [] { return fake->note({.name = "ncclGroupStart"}); };
  api_.group_end = [] { return fake->note({.name = "ncclGroupEnd"}); };
  fill_communicators(api_);
  fill_registration(api_);
  fill_reductions(api_);
  fill_movement(api_);
}

FakeNccl::~FakeNccl() {
  fake = nullptr;
}

void FakeNccl::drop_registration() {
  api_.mem_alloc = nullptr;
  api_.mem_free = nullptr;
  api_.comm_register = nullptr;
  api_.comm_deregister = nullptr;
}

ncclResult_t FakeNccl::note(NcclCall call) {
  const std::lock_guard lock(mutex_);
  const auto found = results.find(call.name);
  calls.push_back(std::move(call));
  return found == results.end() ? ncclSuccess : found->second;
}

std::vector<std::string> FakeNccl::names() const {
  std::vector<std::string> out;
  for (const NcclCall& call : calls) out.push_back(call.name);
  return out;
}

std::vector<NcclCall> FakeNccl::named(const std::string& name) const {
  std::vector<NcclCall> out;
  for (const NcclCall& call : calls) {
    if (call.name == name) out.push_back(call);
  }
  return out;
}

}  // namespace hvd::engine::test
