#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "horovod_cpp/distributed/gradients/setup_agreement.h"

namespace hvd {

// The warnings of the ranks in one test.
class Warnings {
 public:
  Warnings() {
    set_warning_handler([this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      texts_.push_back(text);
    });
  }
  ~Warnings() { set_warning_handler({}); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  std::vector<std::string> texts() {
    const std::lock_guard lock(mutex_);
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

}  // namespace hvd
