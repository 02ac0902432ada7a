#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "core/runtime/collective.h"
#include "ops/mpi/messages.h"

namespace hvd {

struct MpiCollectiveLimits {
  // Batches up to this many bytes go whole to all ranks, which saves a step; larger ones are
  // scattered, reduced and gathered.
  std::size_t small_bytes = std::size_t{16} << 10;
  // MPI counts bytes in int: longer batches go piece by piece. At most INT_MAX.
  std::size_t piece_bytes = std::size_t{256} << 20;
};

// Memory that grows and is reused by one operation after the other.
class Scratch {
 public:
  std::byte* take(std::size_t bytes);  // 64-byte aligned; what was in it is lost

 private:
  Buffer buffer_;
};

class MpiOperation;

// What the operations of one MpiCollective share.
struct MpiCollectiveState {
  std::shared_ptr<MpiCommunicator> communicator;
  MpiCollectiveLimits limits;
  std::atomic<bool> aborted{false};
  // Unfinished, in the order of their start. Collective calls on a communicator must be made in one
  // order on all ranks, and an operation makes several: only the first one makes calls.
  std::deque<const MpiOperation*> order;
  Scratch send;
  Scratch receive;
  Scratch result;
};

// An operation is a chain of non-blocking collective calls with local work between them.
class MpiOperation : public Operation {
 public:
  MpiOperation(std::shared_ptr<MpiCollectiveState> state, std::vector<Fence> ready);
  // If it was not finished, the communicator is not usable any more.
  ~MpiOperation() override;
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;

  bool advance() final;

 protected:
  // The previous call has completed. Does the local work that follows and starts the next call by
  // giving MPI `request`; false when there is none and the operation is finished.
  virtual bool next(MPI_Request* request) = 0;

  MpiCollectiveState& state() const { return *state_; }
  const MpiCommunicator& communicator() const { return *state_->communicator; }
  std::size_t size() const { return static_cast<std::size_t>(communicator().size()); }
  std::size_t rank() const { return static_cast<std::size_t>(communicator().rank()); }

 private:
  void finish();

  std::shared_ptr<MpiCollectiveState> state_;
  std::vector<Fence> ready_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool finished_ = false;
};

}  // namespace hvd
