#pragma once

#include <gtest/gtest.h>

#include <random>

#include "test/support/lock_step_cluster.h"

namespace hvd::engine::test {

// Stalls are reported after a minute; they end the job at the limit, if that is not 0.
class StallTest : public testing::Test {
 protected:
  static NegotiationSettings settings(Duration limit = std::chrono::seconds(0)) {
    NegotiationSettings settings;
    settings.stall_warning = std::chrono::seconds(60);
    settings.stall_limit = limit;
    return settings;
  }
  void wait(LockStepCluster& cluster, int seconds) {
    for (int second = 0; second < seconds; ++second) {
      cluster.advance(std::chrono::seconds(1));
      cluster.settle(random_);
    }
  }
  std::mt19937 random_{3};
};

}  // namespace hvd::engine::test
