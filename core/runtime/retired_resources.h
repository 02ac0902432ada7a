#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/ports/fence.h"
#include "core/system/process.h"

namespace hvd::engine {

// What a device, or MPI, may still use although no thread waits for its end any more: kept until
// that is past it; what it is not past at the end of this object stays until the process ends. Used
// by one thread.
class RetiredResources {
 public:
  RetiredResources() = default;
  ~RetiredResources() {
    let_go();
    for (Kept& each : kept_) leak_until_exit(std::move(each.what));
  }
  RetiredResources(const RetiredResources&) = delete;
  RetiredResources& operator=(const RetiredResources&) = delete;

  void keep(std::shared_ptr<void> what, Fence past) {
    keep(std::move(what), [past = std::move(past)] { return past.reached(); });
  }
  // `past` may use what is kept.
  void keep(std::shared_ptr<void> what, std::function<bool()> past) {
    if (!past()) kept_.push_back({std::move(what), std::move(past)});
  }
  // Drops what the device is past.
  void let_go() {
    std::erase_if(kept_, [](const Kept& each) { return each.past(); });
  }

 private:
  struct Kept {
    std::shared_ptr<void> what;
    std::function<bool()> past;
  };

  std::vector<Kept> kept_;
};

}  // namespace hvd::engine
