#pragma once

#include <functional>
#include <memory>

namespace hvd::engine {

// Calls functions in the order of push(), on a thread of its own that starts with the first one.
// Each is called exactly once, also those that are left when the queue is destroyed.
class CallbackQueue {
 public:
  CallbackQueue();
  // Waits for what was pushed. Where that takes longer than a second, and where this is called by
  // one of the functions, the thread is left behind and calls the rest.
  ~CallbackQueue();
  CallbackQueue(const CallbackQueue&) = delete;
  CallbackQueue& operator=(const CallbackQueue&) = delete;

  // Any thread; never waits for a function. An exception that one throws is logged.
  void push(std::function<void()> callback);

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace hvd::engine
