#include "ops/mpi/mpi_transfer.h"

#include "core/base/status.h"

namespace hvd {

MpiTransferOperation::MpiTransferOperation(std::shared_ptr<MpiSet> set, host::Transfer transfer)
    : set_(std::move(set)), transfer_(set_->shared().transfers.add(std::move(transfer))) {
  set_->shared().communicator->begin_work();
}

MpiTransferOperation::~MpiTransferOperation() {
  if (finished_) return;
  finish();
  set_->abort();  // the peer waits for this end
  MpiEnvironment::instance().note_failure();
  transfer_->data.reset();
  set_->shared().transfers.remove(transfer_);
}

void MpiTransferOperation::finish() {
  finished_ = true;
  set_->shared().communicator->end_work();
}

bool MpiTransferOperation::advance() {
  if (finished_) return true;
  set_->throw_if_aborted();
  host::Transfers& transfers = set_->shared().transfers;
  transfers.poll();
  if (!transfers.done(*transfer_)) return false;
  finish();
  transfer_->status.throw_if_error();
  return true;
}

OperationStats MpiTransferOperation::stats() const {
  return {.packed_bytes = transfer_->sends ? transfer_->tensor.bytes() : 0};
}

}  // namespace hvd
