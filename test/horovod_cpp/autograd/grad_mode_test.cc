#include "horovod_cpp/autograd/grad_mode.h"

#include <gtest/gtest.h>

#include <thread>

namespace hvd {
namespace {

TEST(NoGradGuard, NestsAndIsPerThread) {
  EXPECT_TRUE(grad_enabled());
  {
    NoGradGuard outer;
    {
      NoGradGuard inner;
      EXPECT_FALSE(grad_enabled());
    }
    EXPECT_FALSE(grad_enabled());
    bool other = false;
    std::thread([&] { other = grad_enabled(); }).join();
    EXPECT_TRUE(other);
  }
  EXPECT_TRUE(grad_enabled());
}

}  // namespace
}  // namespace hvd
