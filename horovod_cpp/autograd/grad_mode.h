#pragma once

namespace hvd {

// Whether operations on this thread are recorded; true at the start of every thread.
bool grad_enabled() noexcept;

// The same from now on.
void set_grad_enabled(bool enabled) noexcept;

// While one lives, operations of its thread are recorded, or not; then as before.
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) noexcept;
  ~AutoGradMode();
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool previous_;
};

class NoGradGuard : public AutoGradMode {
 public:
  NoGradGuard() noexcept : AutoGradMode(false) {}
};

class EnableGradGuard : public AutoGradMode {
 public:
  EnableGradGuard() noexcept : AutoGradMode(true) {}
};

}  // namespace hvd
