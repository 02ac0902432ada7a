#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/base/keep_for_ever.h"
#include "core/runtime/fence.h"

namespace hvd {

// What a device may still use although nobody waits for its end any more: kept until the device is
// past it; what it is not past at the end of this object stays until the process ends. Used by one
// thread.
class LeftBehind {
 public:
  LeftBehind() = default;
  ~LeftBehind() {
    let_go();
    for (Kept& each : kept_) keep_for_ever(std::move(each.what));
  }
  LeftBehind(const LeftBehind&) = delete;
  LeftBehind& operator=(const LeftBehind&) = delete;

  void keep(std::shared_ptr<void> what, Fence past) {
    if (!past.reached()) kept_.push_back({std::move(what), std::move(past)});
  }
  // Of what the devices are past.
  void let_go() {
    std::erase_if(kept_, [](const Kept& each) { return each.past.reached(); });
  }

 private:
  struct Kept {
    std::shared_ptr<void> what;
    Fence past;
  };

  std::vector<Kept> kept_;
};

}  // namespace hvd
