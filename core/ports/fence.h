#pragma once

#include <memory>

namespace hvd::engine {

// A point in a device's work queue. The default one is reached: host memory needs no waiting.
class Fence {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool reached() = 0;  // any thread
    // Returns when reached; throws Error if the device failed. Any thread.
    virtual void wait() = 0;
    // Whether a queue of the same device may wait for it instead of the host. It is reached then
    // whatever becomes of other ranks: what they broke off counts as done, and wait() throws.
    virtual bool in_stream_order() const { return false; }
  };

  Fence() = default;
  explicit Fence(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool reached() const { return state_ == nullptr || state_->reached(); }
  void wait() const {
    if (state_ != nullptr) state_->wait();
  }
  bool in_stream_order() const { return state_ != nullptr && state_->in_stream_order(); }
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace hvd::engine
