#pragma once

#include <condition_variable>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/ports/rendezvous.h"

namespace hvd::engine::test {

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

// A rank that meets the others there. `changed` may change what all ranks told in the first round,
// as this rank hears it, and do something before it goes on.
class TestRendezvous : public Rendezvous {
 public:
  using Texts = std::vector<std::string>;

  TestRendezvous(AllGatherPoint& point, Rank rank, int size,
                 std::function<void(Texts&)> changed = nullptr, std::string secret = "")
      : all_gather_(point.of(rank)),
        rank_(rank),
        size_(size),
        changed_(std::move(changed)),
        secret_(std::move(secret)) {}

  Rank rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::string secret() const override { return secret_; }
  Texts all_gather(const std::string& mine, TimePoint deadline) override {
    Texts texts = all_gather_(mine, deadline);
    if (changed_ != nullptr) std::exchange(changed_, nullptr)(texts);
    return texts;
  }

 private:
  AllGatherPoint::AllGather all_gather_;
  Rank rank_;
  int size_;
  std::function<void(Texts&)> changed_;
  std::string secret_;
};

}  // namespace hvd::engine::test
