#include "ops/shm/shm_transfer.h"

namespace hvd {

ShmTransferOperation::ShmTransferOperation(std::shared_ptr<ShmSet> set, host::Transfer transfer)
    : set_(std::move(set)), transfer_(set_->shared().transfers.add(std::move(transfer))) {}

ShmTransferOperation::~ShmTransferOperation() {
  if (finished_) return;
  set_->abort();  // the peer waits for this end
  transfer_->data.reset();
  set_->shared().transfers.remove(transfer_);
}

bool ShmTransferOperation::advance() {
  if (finished_) return true;
  set_->throw_if_aborted();
  host::Transfers& transfers = set_->shared().transfers;
  transfers.poll();
  if (!transfers.done(*transfer_)) return false;
  finished_ = true;
  transfer_->status.throw_if_error();
  return true;
}

OperationStats ShmTransferOperation::stats() const {
  return {.packed_bytes = transfer_->sends ? transfer_->tensor.bytes() : 0};
}

}  // namespace hvd
