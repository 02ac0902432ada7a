#include "horovod_cpp/nn/skip_init.h"

#include <gtest/gtest.h>

#include <thread>

#include "horovod_cpp/nn/layers/conv2d.h"
#include "horovod_cpp/nn/layers/linear.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd {
namespace nn {
namespace {

// Whether the layers that `make` makes draw random numbers on this thread.
template <typename Make>
bool draws(const Make& make) {
  const Generator::State before = default_generator().state();
  make();
  return !(default_generator().state() == before);
}

void make_layers() {
  Linear linear(3, 2);
  Conv2d conv(3, 2, 3);
}

TEST(SkipInit, LeavesLayersUninitialisedWhileItLives) {
  {
    const SkipInit skip;
    EXPECT_TRUE(SkipInit::active());
    EXPECT_FALSE(draws(make_layers));
    {
      const SkipInit inner(false);  // cannot take back what an outer one asked for
      EXPECT_FALSE(draws(make_layers));
    }
    EXPECT_FALSE(draws(make_layers));
  }
  EXPECT_TRUE(draws([] { Linear linear(3, 2); }));
  EXPECT_TRUE(draws([] { Conv2d conv(3, 2, 3); }));
}

TEST(SkipInit, ConcernsItsOwnThreadOnly) {
  const SkipInit skip;
  bool other = false;
  std::thread([&] { other = draws(make_layers); }).join();
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace nn
}  // namespace hvd
