#pragma once

namespace hvd::engine {

// The calling thread waits next for what it submits while this lives: the engine is not woken for
// it, since the thread that waits runs the engine's loop. Where work runs on devices each
// submission wakes the engine all the same: there the threads that wait cannot run its loop.
class SubmissionGroup {
 public:
  SubmissionGroup() noexcept { ++open_; }
  ~SubmissionGroup() { --open_; }
  SubmissionGroup(const SubmissionGroup&) = delete;
  SubmissionGroup& operator=(const SubmissionGroup&) = delete;

  // For the engine, after each submission: whether the calling thread has one.
  static bool open() noexcept { return open_ > 0; }

 private:
  static thread_local int open_;
};

}  // namespace hvd::engine
