#include "ops/cuda/caller_streams.h"

#include <gtest/gtest.h>

#include <string>

#include "ops/cuda/module_memory.h"
#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/stream_log.h"

namespace hvd::engine {
namespace {

using test::host_cuda;

class CallerStreamsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    test::reset_host_cuda();
    hvd_test_stream_log();
  }
  static std::string line(const std::string& what, int point, std::uintptr_t stream) {
    return what + " " + std::to_string(point) + " " + std::to_string(stream) + "\n";
  }

  CallerStreams streams_;
};

TEST_F(CallerStreamsTest, ADeviceHasOneStreamOfOurs) {
  const std::uintptr_t own = streams_.own(1);
  EXPECT_GT(own, 2u);
  EXPECT_NE(streams_.own(0), own);
  const int before = host_cuda().streams;
  EXPECT_EQ(streams_.own(1), own);
  EXPECT_EQ(host_cuda().streams, before);
  EXPECT_EQ(cuda_memory().stream(1), own);
}

TEST_F(CallerStreamsTest, AStreamWaitsForThePointAndTheHostDoesNot) {
  host_cuda().stalled = true;
  const std::uintptr_t producer = hvd_test_make_stream();
  const std::uintptr_t consumer = hvd_test_make_stream();
  const Fence point = streams_.record(1, producer);
  EXPECT_FALSE(point.reached());
  streams_.wait(1, consumer, point);
  EXPECT_EQ(hvd_test_stream_log(), line("record", host_cuda().points, producer) +
                                       line("wait", host_cuda().points, consumer));
  host_cuda().stalled = false;
  EXPECT_TRUE(point.reached());
  EXPECT_EQ(host_cuda().current_device, 0);
}

TEST_F(CallerStreamsTest, TheHostWaitsForWhatIsNoCudaEvent) {
  struct Foreign final : Fence::State {
    bool reached() override { return waited; }
    void wait() override { waited = true; }
    bool waited = false;
  };
  const Fence foreign(std::make_shared<Foreign>());
  streams_.wait(0, hvd_test_make_stream(), foreign);
  EXPECT_TRUE(foreign.reached());
}

TEST_F(CallerStreamsTest, WhatComesBackFromADefaultStreamIsUsedPastIt) {
  const std::uintptr_t own = streams_.own(0);
  hvd_test_stream_log();
  streams_.take_back(0, own, 1);
  EXPECT_EQ(hvd_test_stream_log(),
            line("record", host_cuda().points, 1) + line("wait", host_cuda().points, own));
}

// Which may have been destroyed.
TEST_F(CallerStreamsTest, WhatComesBackFromAnotherStreamIsWaitedFor) {
  const std::uintptr_t consumer = hvd_test_make_stream();
  host_cuda().by_hand = true;
  bool read = false;
  test::enqueue_on_host(reinterpret_cast<cudaStream_t>(consumer), [&] { read = true; });
  streams_.take_back(0, streams_.own(0), consumer);
  EXPECT_TRUE(read);
}

// The numbers of DLPack and __cuda_array_interface__; 0 is what PyTorch's default stream says.
TEST_F(CallerStreamsTest, DefaultStreamsHaveNumbers) {
  for (const auto& [given, meant] : {std::pair{0u, 1u}, {1u, 1u}, {2u, 2u}}) {
    streams_.record(0, given);
    EXPECT_EQ(hvd_test_stream_log(), line("record", host_cuda().points, meant)) << given;
  }
}

}  // namespace
}  // namespace hvd::engine
