#pragma once

namespace hvd {

// Whether operations on this thread are recorded; true at the start of every thread.
bool grad_enabled() noexcept;

// While one lives, operations of its thread are not recorded.
class NoGradGuard {
 public:
  NoGradGuard() noexcept;
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool previous_;
};

}  // namespace hvd
