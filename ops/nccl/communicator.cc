#include "ops/nccl/communicator.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "ops/cuda/device.h"

namespace hvd::engine {
namespace {

constexpr std::chrono::microseconds kProbe{100};

ncclConfig_t never_waits() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Peers may still read the last operation from this rank's buffers.
bool finalized(const NcclApi& api, ncclComm_t handle) noexcept {
  const TimePoint limit = Clock::now() + kGpuTeardownLimit;
  ncclResult_t state = api.comm_finalize(handle);
  while (state == ncclInProgress && Clock::now() < limit) {
    std::this_thread::sleep_for(kProbe);
    if (api.comm_get_async_error(handle, &state) != ncclSuccess) return false;
  }
  return state == ncclSuccess;
}

}  // namespace

std::string make_nccl_id(const NcclApi& api) {
  ncclUniqueId id{};
  check_nccl(api, api.get_unique_id(&id), "ncclGetUniqueId");
  return {id.internal, sizeof id.internal};
}

NcclCommunicator::NcclCommunicator(const NcclApi& api, const std::string& id, const Place& place)
    : NcclCommunicator(api, place) {
  ncclUniqueId unique{};
  if (id.size() != sizeof unique.internal) {
    throw InvalidArgumentError("an NCCL id has " + std::to_string(sizeof unique.internal) +
                               " bytes, not " + std::to_string(id.size()));
  }
  std::memcpy(unique.internal, id.data(), id.size());
  const CudaDeviceScope scope(device());
  ncclConfig_t config = never_waits();
  const MutexLock lock(mutex_);
  connecting();
  check_connecting(api_.comm_init_rank_config(&handle_, size(), unique, rank(), &config),
                   "ncclCommInitRankConfig");
}

NcclCommunicator::~NcclCommunicator() {
  const MutexLock lock(mutex_);
  if (handle_ == nullptr) return;
  if (connected_) deregister_all();
  if (connected_ && finalized(api_, handle_)) {
    api_.comm_destroy(handle_);
  } else {
    api_.comm_abort(handle_);
  }
}

void NcclCommunicator::deregister_all() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = api_.comm_get_async_error(handle_, &state);
  if (asked != ncclSuccess || state != ncclSuccess) return;  // it will be aborted
  for (void* const each : registered_) api_.comm_deregister(handle_, each);
  registered_.clear();
}

void NcclCommunicator::expect_usable() const {
  if (aborted_) throw AbortedError("the NCCL communicator was aborted");
}

void NcclCommunicator::check_usable() {
  const MutexLock lock(mutex_);
  expect_usable();
}

void NcclCommunicator::connecting() {
  connecting_since_ = Clock::now();
}

// A connection also breaks when the process at its other end dies.
void NcclCommunicator::check_connecting(ncclResult_t code, const char* call) const {
  try {
    check_nccl(api_, code, call, handle_);
  } catch (const Error& error) {
    const std::string text =
        "NCCL could not be initialised on rank " + std::to_string(rank()) + " of " +
        std::to_string(size()) + " (CUDA device " + std::to_string(device()) +
        "): " + error.what() +
        ". NCCL_DEBUG=INFO shows what it tried; HVD_GPU_OPERATIONS=ipc (on one "
        "host) or host does without NCCL";
    if (code == ncclRemoteError || code == ncclSystemError) throw PeerLostError(text);
    throw UnsupportedError(text);
  }
}

void NcclCommunicator::expect_in_time() const {
  const Duration limit = place_.connect_limit;
  if (connected_ || limit == Duration::zero() || connecting_since_ == TimePoint{}) return;
  if (Clock::now() - connecting_since_ < limit) return;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
  throw StalledError("NCCL did not connect rank " + std::to_string(rank()) + " of " +
                     std::to_string(size()) + " (CUDA device " + std::to_string(device()) +
                     ") with the others within " + std::to_string(ms) +
                     " ms. NCCL_DEBUG=INFO shows what it tries; HVD_GPU_OPERATIONS=ipc (on one "
                     "host) or host does without NCCL");
}

bool NcclCommunicator::settled() {
  const MutexLock lock(mutex_);
  expect_usable();
  if (handle_ == nullptr) {
    expect_in_time();
    return false;
  }
  ncclResult_t state = ncclSuccess;
  check_nccl(api_, api_.comm_get_async_error(handle_, &state), "ncclCommGetAsyncError", handle_);
  connected_ ? check_nccl(api_, state, "NCCL", handle_) : check_connecting(state, "NCCL");
  if (state != ncclSuccess) {
    expect_in_time();
    return false;
  }
  connected_ = true;
  return true;
}

void NcclCommunicator::begin(const std::function<void(ncclComm_t)>& calls) {
  const MutexLock lock(mutex_);
  expect_usable();
  const CudaDeviceScope scope(device());
  check_nccl(api_, api_.group_start(), "ncclGroupStart");
  try {
    calls(handle_);
  } catch (...) {
    api_.group_end();  // the group is open on this thread otherwise
    throw;
  }
  check_nccl(api_, api_.group_end(), "ncclGroupEnd", handle_);
}

void NcclCommunicator::begin_shrink(std::vector<Rank> without,
                                    const std::shared_ptr<NcclCommunicator>& child) {
  const MutexLock lock(mutex_);
  expect_usable();
  const CudaDeviceScope scope(device());
  ncclConfig_t config = never_waits();
  const MutexLock child_lock(child->mutex_);
  child->connecting();
  children_.push_back(child);
  if (without.empty()) {  // ncclCommShrink needs a rank to leave
    check_connecting(api_.comm_split(handle_, 0, rank(), &child->handle_, &config),
                     "ncclCommSplit");
  } else {
    check_connecting(api_.comm_shrink(handle_, without.data(), static_cast<int>(without.size()),
                                      &child->handle_, &config, NCCL_SHRINK_DEFAULT),
                     "ncclCommShrink");
  }
}

void* NcclCommunicator::register_memory(const Buffer& memory) {
  if (!api_.has_registration() || memory.data == nullptr) return nullptr;
  const MutexLock lock(mutex_);
  expect_usable();
  const CudaDeviceScope scope(device());
  void* handle = nullptr;
  check_nccl(api_, api_.comm_register(handle_, memory.data, memory.bytes, &handle),
             "ncclCommRegister", handle_);
  if (handle != nullptr) registered_.push_back(handle);
  return handle;
}

void NcclCommunicator::deregister(void* handle, Buffer memory) noexcept {
  const MutexLock lock(mutex_);  // `memory` goes once it is unlocked: that waits for the device
  const auto found = std::find(registered_.begin(), registered_.end(), handle);
  if (handle_ == nullptr || found == registered_.end()) return;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = api_.comm_get_async_error(handle_, &state);
  if (asked != ncclSuccess || state != ncclSuccess) {
    kept_.push_back(std::move(memory));
    return;
  }
  api_.comm_deregister(handle_, handle);
  registered_.erase(found);
}

void NcclCommunicator::abort() noexcept {
  std::vector<std::weak_ptr<NcclCommunicator>> children;
  {
    const MutexLock lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    if (handle_ != nullptr) api_.comm_abort(handle_);
    handle_ = nullptr;
    children.swap(children_);
  }
  for (const auto& weak : children) {
    if (const auto child = weak.lock()) child->abort();
  }
}

}  // namespace hvd::engine
