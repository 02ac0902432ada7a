#include "core/runtime/wake/submission_group.h"

#include "core/runtime/wake/loop_ownership.h"

namespace hvd {
namespace {

thread_local SubmissionGroup* outermost = nullptr;

}  // namespace

SubmissionGroup::SubmissionGroup(Next next) noexcept : next_(next) {
  if (outermost == nullptr) outermost = this;
}

SubmissionGroup::~SubmissionGroup() {
  if (outermost != this) return;
  outermost = nullptr;
  if (to_wake_ != nullptr) to_wake_->ring();
}

bool SubmissionGroup::defers_wake(const std::shared_ptr<LoopOwnership>& engine) noexcept {
  if (outermost == nullptr || !engine->others_run()) return false;
  if (outermost->next_ == Next::kWait || outermost->to_wake_ == engine) return true;
  if (outermost->to_wake_ != nullptr) outermost->to_wake_->ring();  // of another job
  outermost->to_wake_ = engine;
  return true;
}

}  // namespace hvd
