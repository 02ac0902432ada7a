#include "ops/mpi/mpi_operation.h"

#include <algorithm>

#include "core/base/status.h"
#include "ops/host/host_buffer.h"

namespace hvd {

std::byte* Scratch::take(std::size_t bytes) {
  if (buffer_.bytes < bytes) {
    buffer_ = {};  // first give back, then ask: the two need not fit at once
    buffer_ = host::allocate_buffer(bytes);
  }
  return static_cast<std::byte*>(buffer_.data);
}

MpiOperation::MpiOperation(std::shared_ptr<MpiCollectiveState> state, std::vector<Fence> ready)
    : state_(std::move(state)), ready_(std::move(ready)) {
  state_->order.push_back(this);
  state_->communicator->begin_work();
}

MpiOperation::~MpiOperation() {
  if (finished_) return;
  finish();
  // The other ranks' next call would meet this one: nothing can follow it.
  state_->aborted = true;
  MpiEnvironment::instance().note_failure();
  if (request_ != MPI_REQUEST_NULL) {
    new std::shared_ptr<MpiCollectiveState>(state_);  // MPI may still touch the scratch memory
  }
}

void MpiOperation::finish() {
  finished_ = true;
  std::erase(state_->order, this);
  state_->communicator->end_work();
}

bool MpiOperation::advance() {
  if (finished_) return true;
  if (state_->aborted) throw AbortedError("the collectives of this rank were aborted");
  if (state_->order.front() != this) return false;
  std::erase_if(ready_, [](const Fence& fence) { return fence.reached(); });
  if (!ready_.empty()) return false;
  while (true) {
    if (request_ != MPI_REQUEST_NULL) {
      int done = 0;
      check_mpi(MPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) return false;
      state_->communicator->note_progress();
    }
    if (!next(&request_)) break;
  }
  finish();
  return true;
}

}  // namespace hvd
