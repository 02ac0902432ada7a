#pragma once

#include "core/ports/fence.h"

namespace hvd::engine::test {

// A fence that is reached when the test says so.
class FenceGate final : public Fence::State {
 public:
  bool reached() override { return open; }
  void wait() override {}
  bool open = false;
};

}  // namespace hvd::engine::test
