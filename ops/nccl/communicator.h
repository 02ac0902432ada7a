#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/thread_annotations.h"
#include "core/base/topology.h"

namespace hvd {

// The bytes of a fresh ncclUniqueId: one rank makes it, the others get it over what they have.
std::string make_nccl_id();

// A communicator of one rank and device whose calls never wait: begin a call when settled(), it is
// over when settled() again. Used by the coordinator, but for abort().
class NcclCommunicator {
 public:
  // Begins to connect. Throws InvalidArgumentError if `id` is not what make_nccl_id() gives.
  NcclCommunicator(const std::string& id, Rank rank, int size, int device);
  // The one that begin_shrink() fills.
  NcclCommunicator(Rank rank, int size, int device) : rank_(rank), size_(size), device_(device) {}
  // Gives its peers a second to take what they still read from here.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  Rank rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int device() const noexcept { return device_; }

  // Whether the last call is over. Throws PeerLostError if it failed, AbortedError after abort().
  bool settled();
  // One or several NCCL calls, begun as one group. Throws as settled() does.
  void begin(const std::function<void(ncclComm_t)>& calls);
  // Begins to make `child`, of the ranks that are not in `without`; they alone call it. Nothing of
  // this communicator may be under way.
  void begin_shrink(std::vector<Rank> without, const std::shared_ptr<NcclCommunicator>& child);
  // Ends what runs, here and in the communicators made from it. Any thread.
  void abort() noexcept;

 private:
  void check_usable() const HVD_REQUIRES(mutex_);

  const Rank rank_;
  const int size_;
  const int device_;
  Mutex mutex_;
  ncclComm_t handle_ HVD_GUARDED_BY(mutex_) = nullptr;
  bool aborted_ HVD_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<NcclCommunicator>> children_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
