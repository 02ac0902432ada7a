#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"
#include "core/ports/collective.h"
#include "ops/nccl/api.h"

namespace hvd::engine {

// The bytes of a fresh ncclUniqueId: one rank makes it, the others get it over what they have.
std::string make_nccl_id(const NcclApi& api);

// A communicator of one rank and device whose calls never wait: begin a call when settled(), it is
// over when settled() again. Used by the coordinator, except abort(), check_usable() and
// deregister().
class NcclCommunicator {
 public:
  // Where a communicator stands, and how long it may take to connect (zero = forever).
  struct Place {
    Rank rank = 0;
    int size = 1;
    int device = 0;
    Duration connect_limit = Duration::zero();
  };

  // Begins to connect. Throws InvalidArgumentError if `id` is not what make_nccl_id() gives, else
  // as settled() does.
  // `api` must outlive it.
  NcclCommunicator(const NcclApi& api, const std::string& id, const Place& place);
  // The one that begin_shrink() fills.
  NcclCommunicator(const NcclApi& api, const Place& place) : api_(api), place_(place) {}
  // Deregisters what still is registered, and gives its peers a second to take what they still read
  // from here.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const NcclApi& api() const noexcept { return api_; }
  const Place& place() const noexcept { return place_; }
  Rank rank() const noexcept { return place_.rank; }
  int size() const noexcept { return place_.size; }
  int device() const noexcept { return place_.device; }

  // Whether the last call is over. Throws PeerLostError if it failed or what it enqueued did,
  // UnsupportedError if NCCL cannot connect here (PeerLostError if it may be another rank's fault),
  // StalledError if it connects for too long, AbortedError after abort().
  bool settled();
  // One or several NCCL calls, begun as one group. Throws as settled() does.
  void begin(const std::function<void(ncclComm_t)>& calls);
  // Begins to make `child`, of the ranks that are not in `without`; they alone call it. Nothing of
  // this communicator may be under way.
  void begin_shrink(std::vector<Rank> without, const std::shared_ptr<NcclCommunicator>& child);
  // Tells NCCL about memory that calls here will use, so that peers may read and write it directly.
  // NCCL wants all ranks to pass registered memory to a call, at one distance from its begin, or
  // none of them. The handle is null where NCCL does not take it. Settled.
  void* register_memory(const Buffer& memory);
  // Before the memory is freed. While a call is under way NCCL cannot: then `memory` is kept until
  // this communicator goes. Any thread.
  void deregister(void* handle, Buffer memory) noexcept;
  // Ends what runs, here and in the communicators made from it. Any thread.
  void abort() noexcept;
  // Throws AbortedError after abort(). Any thread.
  void check_usable();

 private:
  void expect_usable() const HVD_REQUIRES(mutex_);
  void expect_in_time() const HVD_REQUIRES(mutex_);
  void connecting() HVD_REQUIRES(mutex_);
  void check_connecting(ncclResult_t code, const char* call) const HVD_REQUIRES(mutex_);
  void deregister_all() HVD_REQUIRES(mutex_);

  const NcclApi& api_;
  const Place place_;
  Mutex mutex_;
  ncclComm_t handle_ HVD_GUARDED_BY(mutex_) = nullptr;
  bool aborted_ HVD_GUARDED_BY(mutex_) = false;
  bool connected_ HVD_GUARDED_BY(mutex_) = false;
  TimePoint connecting_since_ HVD_GUARDED_BY(mutex_) = {};
  std::vector<void*> registered_ HVD_GUARDED_BY(mutex_);
  std::vector<Buffer> kept_ HVD_GUARDED_BY(mutex_);  // registered, though unused
  std::vector<std::weak_ptr<NcclCommunicator>> children_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd::engine
