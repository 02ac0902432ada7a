#pragma once

#include <memory>

#include "core/runtime/collective.h"
#include "ops/mpi/mpi_set.h"

namespace hvd {

// One end of MpiCollective's send and receive.
class MpiTransferOperation final : public Operation {
 public:
  MpiTransferOperation(std::shared_ptr<MpiSet> set, host::Transfer transfer);
  // If it was not finished, the set is not usable any more.
  ~MpiTransferOperation() override;
  MpiTransferOperation(const MpiTransferOperation&) = delete;
  MpiTransferOperation& operator=(const MpiTransferOperation&) = delete;

  bool advance() override;
  OperationStats stats() const override;

 private:
  void finish();

  std::shared_ptr<MpiSet> set_;
  std::shared_ptr<host::Transfer> transfer_;
  bool finished_ = false;
};

}  // namespace hvd
