#include "ops/hier/hier_operation.h"

#include <utility>

#include "core/base/status.h"

namespace hvd {

bool HierOrder::is_next(std::uint64_t place) const {
  if (broken_) throw AbortedError("an operation before this one was given up halfway");
  return place == started_;
}

void HierOperation::add_stage(const HierOrderPtr& order, Start start) {
  if (order == nullptr) {
    running_ = start();
    return;
  }
  stages_.push_back({order, order->join(), std::move(start)});
}

std::byte* HierOperation::scratch(std::size_t bytes) {
  scratch_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return scratch_.back().get();
}

HierOperation::~HierOperation() {
  HierOperation::withdraw();
}

bool HierOperation::withdraw() noexcept {
  for (; next_ < stages_.size(); ++next_) stages_[next_].order->break_off();
  return running_ == nullptr || running_->withdraw();
}

bool HierOperation::advance() {
  while (true) {
    if (running_ != nullptr) {
      if (!running_->advance()) return false;
      const OperationStats stage = running_->stats();
      // What this rank brought is what the first stage took.
      if (stats_.packed_bytes == 0) stats_.packed_bytes = stage.packed_bytes;
      stats_.packing += stage.packing;
      stats_.unpacking += stage.unpacking;
      running_.reset();
    }
    if (next_ == stages_.size()) return true;
    const Stage& stage = stages_[next_];
    if (!stage.order->is_next(stage.place)) return false;
    running_ = stage.start();
    stage.order->start_next();
    ++next_;
  }
}

}  // namespace hvd
