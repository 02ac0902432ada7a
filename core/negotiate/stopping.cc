#include "core/negotiate/stopping.h"

#include <utility>

#include "core/negotiate/messages/request.h"

namespace hvd::engine {

bool Stopping::leave() {
  return !stopped_ && !std::exchange(leaving_, true);
}

void Stopping::check_submission(const std::string& name) const {
  if (stopped_) stopped_->throw_if_error();
  if (leaving_) throw AbortedError(readable_name(name) + ": this rank has shut down");
}

void Stopping::report(const AbortNotice& notice) {
  if (tree_.rank != 0) messages_.send(0, MessageKind::kAbortReport, notice);
}

void Stopping::broadcast(const AbortNotice& notice) {
  const auto tell = [&](Rank rank) {
    if (rank != notice.lost) messages_.send(rank, MessageKind::kAbortBroadcast, notice);
  };
  if (tree_.rank == 0) {
    for (Rank rank = 1; rank < tree_.size; ++rank) tell(rank);
  } else {
    for (const Rank child : tree_.children) tell(child);
  }
}

void Stopping::stop(const Status& why) {
  stopped_ = why;
  if (tree_.rank != 0 && !parent_gone_) messages_.send(tree_.parent, MessageKind::kConfirm);
}

void Stopping::lost(Rank rank) {
  std::erase(awaited_, rank);
  if (tree_.rank != 0 && rank == tree_.parent) parent_gone_ = true;
}

}  // namespace hvd::engine
