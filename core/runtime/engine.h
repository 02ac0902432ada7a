#pragma once

#include <vector>

#include "core/base/status.h"
#include "core/runtime/handle.h"
#include "core/runtime/submission.h"

namespace hvd {

// What stands behind a Runtime; the calls have its contracts.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::vector<Handle> submit(std::vector<Submission> submissions) = 0;
  virtual void shutdown() = 0;
  virtual Status stopped() const = 0;
};

}  // namespace hvd
