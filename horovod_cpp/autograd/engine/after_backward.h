#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace hvd {
namespace autograd {

// Calls `function` when the backward() that runs on this thread has delivered all its gradients,
// once for each `key` however often it is asked for. Nothing is called when that pass throws, nor
// outside of a pass, nor for grad(), which delivers nothing.
void after_backward(const void* key, std::function<void()> function);

// Tells passes of this thread apart: a number for each backward(), that of the outermost one where
// they nest. 0 outside.
std::uint64_t current_pass();

// Of one backward(): what is to be called after it. Passes of a thread nest.
class AfterBackward {
 public:
  AfterBackward();
  ~AfterBackward();
  AfterBackward(const AfterBackward&) = delete;
  AfterBackward& operator=(const AfterBackward&) = delete;

  void run();

 private:
  friend void after_backward(const void* key, std::function<void()> function);
  friend std::uint64_t current_pass();

  std::vector<std::pair<const void*, std::function<void()>>> calls_;
  AfterBackward* previous_;
  std::uint64_t pass_;
};

}  // namespace autograd
}  // namespace hvd
