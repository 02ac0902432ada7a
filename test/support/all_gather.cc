#include "test/support/all_gather.h"

#include "core/base/status.h"

namespace hvd::engine::test {

AllGatherPoint::AllGather AllGatherPoint::of(Rank rank) {
  return [this, rank](const std::string& mine, TimePoint deadline) {
    return gather(rank, mine, deadline);
  };
}

std::vector<std::string> AllGatherPoint::gather(Rank rank, const std::string& mine,
                                                TimePoint deadline) {
  MutexLock lock(mutex_);
  texts_[static_cast<std::size_t>(rank)] = mine;
  const std::size_t round = round_;
  if (++arrived_ == texts_.size()) {
    complete_ = texts_;
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
    return complete_;
  }
  // Nobody can end the next round before this rank has come to it.
  while (round_ == round) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout && round_ == round) {
      throw StalledError(std::to_string(texts_.size() - arrived_) + " ranks are missing");
    }
  }
  return complete_;
}

}  // namespace hvd::engine::test
