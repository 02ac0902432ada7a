#include "test/gpu/logic/nccl_world.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/dtype.h"
#include "core/base/half.h"
#include "ops/host/reduce.h"
#include "test/gpu/logic/host_cuda.h"

namespace hvd::test {
namespace {

constexpr int kLooks = 2;  // until a call was taken

struct Group;

struct Communicator {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::uint64_t calls = 0;  // collectives
  int looks = 0;            // until what was asked for is under way
  std::vector<std::function<void()>> launches;
  std::map<const std::byte*, std::size_t> registered;
  std::vector<double> scales;  // of operations made here
  std::map<std::vector<int>, int> children;
  bool aborted = false;
};

struct Call {
  std::string name;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int op = 0;
  int peer = 0;  // or root
  Communicator* communicator = nullptr;
  cudaStream_t stream = nullptr;
  std::uint64_t number = 0;
  bool arrived = false;
  bool done = false;
};

using CallPtr = std::shared_ptr<Call>;

struct Group {
  int size = 0;
  int joined = 0;
  std::map<std::uint64_t, std::vector<CallPtr>> meetings;  // by number; by order of arrival
  std::map<std::pair<int, int>, std::deque<CallPtr>> sends;
  std::map<std::pair<int, int>, std::deque<CallPtr>> receives;
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<Group>> children;
};

thread_local int depth = 0;
thread_local std::vector<CallPtr> grouped;

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return DType::kI8;
    case ncclInt32:
      return DType::kI32;
    case ncclInt64:
      return DType::kI64;
    case ncclFloat16:
      return DType::kF16;
    case ncclBfloat16:
      return DType::kBF16;
    case ncclFloat32:
      return DType::kF32;
    case ncclFloat64:
      return DType::kF64;
    default:
      return DType::kU8;
  }
}

std::size_t bytes_of(const Call& call) {
  return call.count * size_of(dtype_of(call.type));
}

double scalar_of(const void* scalar, ncclDataType_t type) {
  if (type == ncclFloat64) return *static_cast<const double*>(scalar);
  if (type == ncclFloat32) return *static_cast<const float*>(scalar);
  if (type == ncclFloat16) return to_float(*static_cast<const Float16*>(scalar));
  return to_float(*static_cast<const BFloat16*>(scalar));
}

}  // namespace

struct NcclWorld::State {
  NcclApi api;
  mutable std::mutex mutex;
  std::deque<Communicator> communicators;
  std::map<std::string, std::shared_ptr<Group>> groups;
  std::vector<std::string> problems;
  std::map<std::string, int> counts;
  int ids = 0;

  Communicator* add(const std::shared_ptr<Group>& group, int rank) {
    Communicator& made = communicators.emplace_back();
    made.group = group;
    made.rank = rank;
    made.looks = kLooks;
    ++group->joined;
    return &made;
  }

  bool attempt(const CallPtr& call);
  bool attempt_transfer(const CallPtr& call);
  void match(Group& group, const std::pair<int, int>& pair);
  void compute(std::vector<CallPtr> calls);
  void move(const std::vector<CallPtr>& by_rank);
  void reduce(const std::vector<CallPtr>& by_rank);
  void check_alike(const std::vector<CallPtr>& by_rank);
  void check_registration(const std::vector<CallPtr>& by_rank);
};

namespace {

NcclWorld::State* world = nullptr;

Communicator& of(ncclComm_t handle) {
  return *reinterpret_cast<Communicator*>(handle);
}

// From the begin of the registered memory in which this lies.
std::optional<std::ptrdiff_t> distance_in(const Communicator& communicator, const void* data,
                                          std::size_t bytes) {
  const auto* const at = static_cast<const std::byte*>(data);
  auto after = communicator.registered.upper_bound(at);
  if (after == communicator.registered.begin()) return std::nullopt;
  --after;
  if (at + bytes > after->first + after->second) return std::nullopt;
  return at - after->first;
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

bool NcclWorld::State::attempt(const CallPtr& call) {
  if (call->done || call->communicator->aborted) return true;
  if (call->name == "ncclSend" || call->name == "ncclRecv") return attempt_transfer(call);
  Group& group = *call->communicator->group;
  if (!std::exchange(call->arrived, true)) {
    auto& meeting = group.meetings[call->number];
    meeting.push_back(call);
    if (static_cast<int>(meeting.size()) == group.size) {
      compute(std::move(meeting));
      group.meetings.erase(call->number);
    }
  }
  return call->done;
}

bool NcclWorld::State::attempt_transfer(const CallPtr& call) {
  if (std::exchange(call->arrived, true)) return call->done;
  Group& group = *call->communicator->group;
  const int rank = call->communicator->rank;
  const bool sends = call->name == "ncclSend";
  const auto pair = sends ? std::pair(rank, call->peer) : std::pair(call->peer, rank);
  (sends ? group.sends : group.receives)[pair].push_back(call);
  match(group, pair);
  return call->done;
}

void NcclWorld::State::match(Group& group, const std::pair<int, int>& pair) {
  auto& sends = group.sends[pair];
  auto& receives = group.receives[pair];
  while (!sends.empty() && !receives.empty()) {
    Call& from = *sends.front();
    Call& to = *receives.front();
    if (bytes_of(from) != bytes_of(to)) problems.emplace_back("a send and a receive differ");
    std::memcpy(to.to, from.from, std::min(bytes_of(from), bytes_of(to)));
    from.done = to.done = true;
    sends.pop_front();
    receives.pop_front();
  }
}

void NcclWorld::State::compute(std::vector<CallPtr> calls) {
  std::vector<CallPtr> by_rank(calls.size());
  for (const CallPtr& call : calls) {
    by_rank[static_cast<std::size_t>(call->communicator->rank)] = call;
    call->done = true;
  }
  check_alike(by_rank);
  check_registration(by_rank);
  const std::string& name = by_rank.front()->name;
  const bool reduces = name.find("Reduce") != std::string::npos;
  reduces ? reduce(by_rank) : move(by_rank);
}

void NcclWorld::State::check_alike(const std::vector<CallPtr>& by_rank) {
  const Call& first = *by_rank.front();
  for (const CallPtr& each : by_rank) {
    if (each->name == first.name && each->count == first.count && each->type == first.type &&
        each->op == first.op && each->peer == first.peer) {
      continue;
    }
    problems.push_back(first.name + " of " + std::to_string(first.count) + " meets " + each->name +
                       " of " + std::to_string(each->count));
  }
}

// Inputs and outputs; a broadcast has an input on its root alone.
void NcclWorld::State::check_registration(const std::vector<CallPtr>& by_rank) {
  const auto distances = [](const Call& call) {
    const std::size_t bytes = bytes_of(call);
    return std::pair(distance_in(*call.communicator, call.from, bytes),
                     distance_in(*call.communicator, call.to, bytes));
  };
  if (by_rank.front()->name == "ncclBroadcast") return;
  for (const CallPtr& each : by_rank) {
    if (distances(*each) == distances(*by_rank.front())) continue;
    problems.push_back(each->name + ": memory is not registered alike on all ranks");
  }
}

void NcclWorld::State::reduce(const std::vector<CallPtr>& by_rank) {
  const Call& first = *by_rank.front();
  const std::size_t ranks = by_rank.size();
  const bool scatters = first.name == "ncclReduceScatter";
  const std::size_t count = scatters ? first.count * ranks : first.count;
  const DType dtype = dtype_of(first.type);
  std::vector<const void*> inputs;
  for (const CallPtr& each : by_rank) inputs.push_back(each->from);
  ReduceOp op = ReduceOp::kSum;
  double before = 1.0;
  double after = 1.0;
  if (first.op == ncclProd) op = ReduceOp::kProduct;
  if (first.op == ncclMax) op = ReduceOp::kMax;
  if (first.op == ncclMin) op = ReduceOp::kMin;
  if (first.op == ncclAvg) after = 1.0 / static_cast<double>(ranks);
  if (first.op >= ncclNumOps) {
    before = first.communicator->scales[static_cast<std::size_t>(first.op - ncclNumOps)];
  }
  std::vector<std::byte> result(count * size_of(dtype));
  host::reduce(dtype, op, inputs, result.data(), static_cast<std::int64_t>(count), before, after);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Call& call = *by_rank[rank];
    if (call.name == "ncclReduce" && call.peer != static_cast<int>(rank)) continue;
    const std::size_t bytes = bytes_of(call);
    if (bytes != 0) std::memcpy(call.to, result.data() + (scatters ? rank * bytes : 0), bytes);
  }
}

void NcclWorld::State::move(const std::vector<CallPtr>& by_rank) {
  const std::size_t bytes = bytes_of(*by_rank.front());
  if (bytes == 0) return;
  std::vector<std::byte> result;
  const auto take = [&](const Call& from) {
    const auto* const first = static_cast<const std::byte*>(from.from);
    result.insert(result.end(), first, first + bytes);
  };
  if (by_rank.front()->name == "ncclBroadcast") {
    take(*by_rank[static_cast<std::size_t>(by_rank.front()->peer)]);
  } else {
    for (const CallPtr& each : by_rank) take(*each);
  }
  for (const CallPtr& each : by_rank) std::memcpy(each->to, result.data(), result.size());
}

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

int NcclWorld::calls(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->counts.find(name);
  return found == state_->counts.end() ? 0 : found->second;
}

}  // namespace hvd::test
