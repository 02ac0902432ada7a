#include "ops/nccl/enqueued_operation.h"

#include <cstring>

namespace hvd::engine {

bool ExchangeOperation::advance() {
  if (done_) return true;
  if (!EnqueuedOperation::advance()) return false;
  if (arrived_.state() == nullptr) arrived_ = awaited_fence();
  if (!arrived_.reached()) return false;
  arrived_.wait();  // throws if the device failed
  const auto* host = static_cast<const std::byte*>(staging_->host.data);
  std::memcpy(all_.data(), host + staging_->begin, staging_->all_bytes);
  done_ = true;
  return true;
}

}  // namespace hvd::engine
