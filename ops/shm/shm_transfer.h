#pragma once

#include <memory>

#include "core/runtime/collective.h"
#include "ops/shm/shm_set.h"

namespace hvd {

// One end of ShmCollective's send and receive.
class ShmTransferOperation final : public Operation {
 public:
  ShmTransferOperation(std::shared_ptr<ShmSet> set, host::Transfer transfer);
  // If it was not finished, the set is not usable any more.
  ~ShmTransferOperation() override;
  ShmTransferOperation(const ShmTransferOperation&) = delete;
  ShmTransferOperation& operator=(const ShmTransferOperation&) = delete;

  bool advance() override;
  OperationStats stats() const override;

 private:
  std::shared_ptr<ShmSet> set_;
  std::shared_ptr<host::Transfer> transfer_;
  bool finished_ = false;
};

}  // namespace hvd
