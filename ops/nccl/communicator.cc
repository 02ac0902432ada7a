#include "ops/nccl/communicator.h"

#include <cstring>
#include <thread>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "ops/cuda/device.h"
#include "ops/nccl/check.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kFinalizeLimit{1};
constexpr std::chrono::microseconds kProbe{100};

ncclConfig_t never_waits() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Peers may still read the last operation from this rank's buffers.
bool finalized(ncclComm_t handle) noexcept {
  const TimePoint limit = Clock::now() + kFinalizeLimit;
  ncclResult_t state = ncclCommFinalize(handle);
  while (state == ncclInProgress && Clock::now() < limit) {
    std::this_thread::sleep_for(kProbe);
    if (ncclCommGetAsyncError(handle, &state) != ncclSuccess) return false;
  }
  return state == ncclSuccess;
}

}  // namespace

std::string make_nccl_id() {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {id.internal, sizeof id.internal};
}

NcclCommunicator::NcclCommunicator(const std::string& id, Rank rank, int size, int device)
    : NcclCommunicator(rank, size, device) {
  ncclUniqueId unique{};
  if (id.size() != sizeof unique.internal) {
    throw InvalidArgumentError("an NCCL id has " + std::to_string(sizeof unique.internal) +
                               " bytes, not " + std::to_string(id.size()));
  }
  std::memcpy(unique.internal, id.data(), id.size());
  const CudaDeviceScope scope(device_);
  ncclConfig_t config = never_waits();
  const MutexLock lock(mutex_);
  check_nccl(ncclCommInitRankConfig(&handle_, size_, unique, rank_, &config),
             "ncclCommInitRankConfig");
}

NcclCommunicator::~NcclCommunicator() {
  const MutexLock lock(mutex_);
  if (handle_ == nullptr) return;
  if (finalized(handle_)) {
    ncclCommDestroy(handle_);
  } else {
    ncclCommAbort(handle_);
  }
}

void NcclCommunicator::check_usable() const {
  if (aborted_) throw AbortedError("the NCCL communicator was aborted");
}

bool NcclCommunicator::settled() {
  const MutexLock lock(mutex_);
  check_usable();
  if (handle_ == nullptr) return false;
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(handle_, &state), "ncclCommGetAsyncError", handle_);
  check_nccl(state, "NCCL", handle_);
  return state == ncclSuccess;
}

void NcclCommunicator::begin(const std::function<void(ncclComm_t)>& calls) {
  const MutexLock lock(mutex_);
  check_usable();
  const CudaDeviceScope scope(device_);
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  try {
    calls(handle_);
  } catch (...) {
    ncclGroupEnd();  // the group is open on this thread otherwise
    throw;
  }
  check_nccl(ncclGroupEnd(), "ncclGroupEnd", handle_);
}

void NcclCommunicator::begin_shrink(std::vector<Rank> without,
                                    const std::shared_ptr<NcclCommunicator>& child) {
  const MutexLock lock(mutex_);
  check_usable();
  const CudaDeviceScope scope(device_);
  ncclConfig_t config = never_waits();
  const MutexLock child_lock(child->mutex_);
  if (without.empty()) {  // ncclCommShrink wants somebody to leave
    check_nccl(ncclCommSplit(handle_, 0, rank_, &child->handle_, &config), "ncclCommSplit",
               handle_);
  } else {
    check_nccl(ncclCommShrink(handle_, without.data(), static_cast<int>(without.size()),
                              &child->handle_, &config, NCCL_SHRINK_DEFAULT),
               "ncclCommShrink", handle_);
  }
  children_.push_back(child);
}

void NcclCommunicator::abort() noexcept {
  std::vector<std::weak_ptr<NcclCommunicator>> children;
  {
    const MutexLock lock(mutex_);
    if (aborted_) return;
    aborted_ = true;
    if (handle_ != nullptr) ncclCommAbort(handle_);
    handle_ = nullptr;
    children.swap(children_);
  }
  for (const auto& weak : children) {
    if (const auto child = weak.lock()) child->abort();
  }
}

}  // namespace hvd
