#pragma once

#include <condition_variable>
#include <functional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/base/topology.h"

namespace hvd::test {

// Where the ranks of a test, a thread each, tell each other texts. Throws StalledError naming how
// many are missing at the deadline.
class AllGatherPoint {
 public:
  using AllGather =
      std::function<std::vector<std::string>(const std::string& mine, TimePoint deadline)>;

  explicit AllGatherPoint(int size) : texts_(static_cast<std::size_t>(size)) {}
  AllGather of(Rank rank);

 private:
  std::vector<std::string> gather(Rank rank, const std::string& mine, TimePoint deadline);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::string> texts_ HVD_GUARDED_BY(mutex_);
  std::vector<std::string> complete_ HVD_GUARDED_BY(mutex_);
  std::size_t arrived_ HVD_GUARDED_BY(mutex_) = 0;
  std::size_t round_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvd::test
