#pragma once

#include <memory>
#include <utility>

#include "core/ports/collective.h"
#include "ops/host/transfers.h"

namespace hvd::host {

// One end of a Collective's send and receive. A Set has the Transfers of its link, is told what
// works on it (shared()), and may be aborted.
template <typename Set>
class TransferOperation final : public Operation {
 public:
  TransferOperation(std::shared_ptr<Set> set, Transfer transfer)
      : set_(std::move(set)), transfer_(set_->shared().transfers.add(std::move(transfer))) {
    set_->shared().begin_work();
  }
  ~TransferOperation() override { TransferOperation::withdraw(); }
  TransferOperation(const TransferOperation&) = delete;
  TransferOperation& operator=(const TransferOperation&) = delete;

  bool advance() override {
    if (over_) return true;
    set_->throw_if_aborted();
    Transfers& transfers = set_->shared().transfers;
    transfers.poll();
    if (!transfers.done(*transfer_)) return false;
    transfer_->status.throw_if_error();
    end();
    return true;
  }

  bool withdraw() noexcept override {
    if (over_) return true;
    if (!set_->shared().transfers.withdraw(transfer_, set_->is_aborted())) return false;
    end();
    return true;
  }

  OperationStats stats() const override {
    return {.packed_bytes = transfer_->sends ? transfer_->tensor.bytes() : 0};
  }

 private:
  void end() noexcept {
    over_ = true;
    set_->shared().end_work();
  }

  std::shared_ptr<Set> set_;
  std::shared_ptr<Transfer> transfer_;
  bool over_ = false;
};

}  // namespace hvd::host
