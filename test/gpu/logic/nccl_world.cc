#include "test/gpu/logic/nccl_world.h"

#include <cstdlib>
#include <cstring>

#include "core/base/half.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/nccl_world_state.h"

namespace hvd::test {
namespace {

thread_local int depth = 0;
thread_local std::vector<CallPtr> grouped;

double scalar_of(const void* scalar, ncclDataType_t type) {
  if (type == ncclFloat64) return *static_cast<const double*>(scalar);
  if (type == ncclFloat32) return *static_cast<const float*>(scalar);
  if (type == ncclFloat16) return to_float(*static_cast<const Float16*>(scalar));
  return to_float(*static_cast<const BFloat16*>(scalar));
}

NcclWorld::State* world = nullptr;

Communicator& of(ncclComm_t handle) {
  return *reinterpret_cast<Communicator*>(handle);
}

ncclResult_t end_group() {
  if (--depth > 0) return ncclSuccess;
  std::vector<CallPtr> calls = std::exchange(grouped, {});
  if (calls.empty()) return ncclSuccess;
  const std::lock_guard lock(world->mutex);
  Communicator& communicator = *calls.front()->communicator;
  for (const CallPtr& call : calls) {
    ++world->counts[call->name];
    if (call->name == "ncclSend" || call->name == "ncclRecv") continue;
    call->number = communicator.calls++;
  }
  communicator.looks = kLooks;
  communicator.launches.push_back([calls = std::move(calls)] {
    enqueue(calls.front()->stream, [calls] {
      const std::lock_guard inner(world->mutex);
      bool done = true;
      for (const CallPtr& call : calls) done &= world->attempt(call);
      return done;
    });
  });
  return ncclInProgress;
}

ncclResult_t add_call(Call call) {
  ++depth;
  grouped.push_back(std::make_shared<Call>(std::move(call)));
  return end_group();
}

ncclResult_t make_child(ncclComm_t parent, std::vector<int> without, ncclComm_t* out) {
  const std::lock_guard lock(world->mutex);
  Communicator& from = of(parent);
  if (from.looks != 0) world->problems.emplace_back("a communicator was divided during a call");
  int rank = from.rank;
  for (const int each : without) rank -= each < from.rank ? 1 : 0;
  auto& group = from.group->children[{without, from.children[without]++}];
  if (group == nullptr) group = std::make_shared<Group>();
  group->size = from.group->size - static_cast<int>(without.size());
  *out = reinterpret_cast<ncclComm_t>(world->add(group, rank));
  from.looks = kLooks;
  return ncclInProgress;
}

ncclResult_t look(ncclComm_t handle, ncclResult_t* state) {
  std::vector<std::function<void()>> launches;
  {
    const std::lock_guard lock(world->mutex);
    Communicator& communicator = of(handle);
    *state = ncclInProgress;
    if (communicator.group->joined < communicator.group->size) return ncclSuccess;
    if (communicator.looks > 0 && --communicator.looks > 0) return ncclSuccess;
    *state = ncclSuccess;
    launches.swap(communicator.launches);
  }
  for (const auto& launch : launches) launch();
  return ncclSuccess;
}

void fill_communicators(NcclApi& api) {
  api.get_unique_id = [](ncclUniqueId* id) {
    const std::lock_guard lock(world->mutex);
    std::memset(id->internal, 0, sizeof id->internal);
    id->internal[0] = static_cast<char>(++world->ids);
    return ncclSuccess;
  };
  api.comm_init_rank_config = [](ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                 ncclConfig_t*) {
    const std::lock_guard lock(world->mutex);
    auto& group = world->groups[{id.internal, sizeof id.internal}];
    if (group == nullptr) group = std::make_shared<Group>();
    group->size = size;
    *out = reinterpret_cast<ncclComm_t>(world->add(group, rank));
    return ncclInProgress;
  };
  api.comm_split = [](ncclComm_t parent, int, int, ncclComm_t* out, ncclConfig_t*) {
    return make_child(parent, {}, out);
  };
  api.comm_shrink = [](ncclComm_t parent, int* without, int count, ncclComm_t* out, ncclConfig_t*,
                       int) {
    return make_child(parent, {without, without + count}, out);
  };
  api.comm_get_async_error = look;
  api.comm_finalize = [](ncclComm_t) { return ncclSuccess; };
  api.comm_destroy = [](ncclComm_t handle) {
    const std::lock_guard lock(world->mutex);
    if (!of(handle).registered.empty()) {
      world->problems.emplace_back(
          "a communicator was destroyed before its memory was deregistered");
    }
    return ncclSuccess;
  };
  api.comm_abort = [](ncclComm_t handle) {
    const std::lock_guard lock(world->mutex);
    of(handle).aborted = true;
    of(handle).registered.clear();
    return ncclSuccess;
  };
}

void fill_registration(NcclApi& api) {
  api.mem_alloc = [](void** data, std::size_t bytes) {
    {
      const std::lock_guard lock(world->mutex);
      ++world->counts["ncclMemAlloc"];
      if (world->full_device == HostCuda::current_device) return ncclUnhandledCudaError;
    }
    *data = std::aligned_alloc(4096, bytes);
    return *data != nullptr ? ncclSuccess : ncclSystemError;
  };
  api.mem_free = [](void* data) {
    const std::lock_guard lock(world->mutex);
    for (const Communicator& each : world->communicators) {
      if (each.registered.count(static_cast<std::byte*>(data)) == 0) continue;
      world->problems.emplace_back("memory was freed while it was registered");
    }
    std::free(data);
    return ncclSuccess;
  };
  api.comm_register = [](ncclComm_t handle, void* data, std::size_t bytes, void** made) {
    const std::lock_guard lock(world->mutex);
    if (of(handle).looks != 0) world->problems.emplace_back("memory was registered during a call");
    of(handle).registered[static_cast<std::byte*>(data)] = bytes;
    *made = data;
    return ncclSuccess;
  };
  api.comm_deregister = [](ncclComm_t handle, void* made) {
    const std::lock_guard lock(world->mutex);
    if (of(handle).looks != 0)
      world->problems.emplace_back("memory was deregistered during a call");
    if (of(handle).registered.erase(static_cast<std::byte*>(made)) == 0) {
      world->problems.emplace_back("memory was deregistered that was not registered");
    }
    return ncclSuccess;
  };
}

void fill_collectives(NcclApi& api) {
  api.group_start = [] {
    ++depth;
    return ncclSuccess;
  };
  api.group_end = end_group;
  api.all_reduce = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return add_call({"ncclAllReduce", from, to, count, type, op, 0, &of(comm), stream});
  };
  api.reduce_scatter = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                          ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return add_call({"ncclReduceScatter", from, to, count, type, op, 0, &of(comm), stream});
  };
  api.reduce = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                  ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    return add_call({"ncclReduce", from, to, count, type, op, root, &of(comm), stream});
  };
  api.broadcast = [](const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                     ncclComm_t comm, cudaStream_t stream) {
    return add_call({"ncclBroadcast", from, to, count, type, 0, root, &of(comm), stream});
  };
  api.all_gather = [](const void* from, void* to, std::size_t count, ncclDataType_t type,
                      ncclComm_t comm, cudaStream_t stream) {
    return add_call({"ncclAllGather", from, to, count, type, 0, 0, &of(comm), stream});
  };
  api.send = [](const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                cudaStream_t stream) {
    return add_call({"ncclSend", from, nullptr, count, type, 0, peer, &of(comm), stream});
  };
  api.recv = [](void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                cudaStream_t stream) {
    return add_call({"ncclRecv", nullptr, to, count, type, 0, peer, &of(comm), stream});
  };
  api.red_op_create_pre_mul_sum = [](ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                     ncclScalarResidence_t, ncclComm_t comm) {
    const std::lock_guard lock(world->mutex);
    of(comm).scales.push_back(scalar_of(scalar, type));
    *op = static_cast<ncclRedOp_t>(ncclNumOps + of(comm).scales.size() - 1);
    return ncclSuccess;
  };
  api.red_op_destroy = [](ncclRedOp_t, ncclComm_t) { return ncclSuccess; };
}

}  // namespace

NcclWorld::NcclWorld() : state_(std::make_unique<State>()) {
  reset_host_cuda();
  world = state_.get();
  NcclApi& api = state_->api;
  api.get_version = [](int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  };
  api.get_error_string = [](ncclResult_t) { return "NCCL's text"; };
  api.get_last_error = [](ncclComm_t) { return ""; };
  fill_communicators(api);
  fill_registration(api);
  fill_collectives(api);
}

NcclWorld::~NcclWorld() {
  world = nullptr;
}

const NcclApi& NcclWorld::api() const {
  return state_->api;
}

std::vector<std::string> NcclWorld::problems() const {
  const std::lock_guard lock(state_->mutex);
  return state_->problems;
}

void NcclWorld::fill_device(std::optional<int> device) {
  const std::lock_guard lock(state_->mutex);
  state_->full_device = device;
}

int NcclWorld::calls(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->counts.find(name);
  return found == state_->counts.end() ? 0 : found->second;
}

}  // namespace hvd::test
