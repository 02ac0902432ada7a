#pragma once

#include <cstdint>
#include <memory>

namespace hvd {

class LoopOwnership;

// What the calling thread submits while this lives belongs together, so that the engine is not
// woken for each submission. Of nested ones the outermost counts. Where work runs on devices every
// submission wakes the engine all the same: there the threads that wait cannot run its loop.
class SubmissionGroup {
 public:
  enum class Next : std::uint8_t {
    kCompute,  // the thread goes on: the engine is woken once, at the end
    kWait,     // the thread waits for what it submitted: nobody is woken, since it runs the loop
  };
  explicit SubmissionGroup(Next next) noexcept;
  ~SubmissionGroup();
  SubmissionGroup(const SubmissionGroup&) = delete;
  SubmissionGroup& operator=(const SubmissionGroup&) = delete;

  // For the engine, after each submission: whether a group of this thread sees to the wake-up.
  static bool defers_wake(const std::shared_ptr<LoopOwnership>& engine) noexcept;

 private:
  const Next next_;
  std::shared_ptr<LoopOwnership> to_wake_;
};

}  // namespace hvd
