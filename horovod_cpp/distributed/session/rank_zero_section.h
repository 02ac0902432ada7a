#pragma once

#include <functional>
#include <string>

#include "core/base/clock.h"
#include "horovod_cpp/distributed/collectives/collective_handle.h"
#include "horovod_cpp/distributed/collectives/process_set.h"

namespace hvd {

// A part of the program that the first rank of a set (rank 0 of the job) runs alone: evaluation,
// writing a checkpoint. The others wait at its end; while they wait for rank 0, and until the
// timeout, no rank is reported as stalled.
//
//   {
//     hvd::RankZeroSection section(std::chrono::minutes(10));
//     if (section.mine()) io::save(path, model.state_dict());
//   }
//
// All ranks of the set make it, in the same order; no collective over the set may run inside. The
// thread that made it ends it.
class RankZeroSection {
 public:
  // Collective, but does not wait. Throws InvalidArgumentError unless timeout > 0.
  explicit RankZeroSection(Duration timeout, const ProcessSet& process_set = {});
  // finish(), unless the section has ended. An exception that leaves the block on the first rank
  // reaches the others as AbortedError, but without its text (use rank_zero_section() or fail());
  // one that leaves it on another rank goes on without waiting.
  ~RankZeroSection() noexcept(false);
  RankZeroSection(const RankZeroSection&) = delete;
  RankZeroSection& operator=(const RankZeroSection&) = delete;

  // True on the rank that does the work.
  bool mine() const { return mine_; }

  // First rank: lets the others go on, and returns when all of them have come. Others: waits for
  // that. Throws AbortedError with the first rank's error when it failed there, StalledError when
  // it has not ended `timeout` after the section began here. Does nothing when the section has
  // ended.
  void finish();
  // The same, but lets the others throw AbortedError with this text (its first 4000 bytes); waits
  // at most 5 s for them to come and get it. On other ranks than the first like finish().
  void fail(const std::string& error);
  // An exception left the section on this rank: lets it go on without waiting. On the first rank
  // like fail(), without a text.
  void abandon() noexcept;

 private:
  void end(bool failed, const std::string& error);
  void announce(bool failed, const std::string& error);
  void wait_for_delivery();

  ProcessSet set_;
  Duration timeout_;
  TimePoint deadline_;
  bool mine_ = false;
  bool finished_ = false;
  int exceptions_at_start_ = 0;
  Tensor message_;
  CollectiveHandle ended_;
};

// Runs `work` on the first rank while the others wait. What it throws is thrown there as it is and
// reaches the others as AbortedError with its text.
void rank_zero_section(Duration timeout, const std::function<void()>& work,
                       const ProcessSet& process_set = {});

}  // namespace hvd
