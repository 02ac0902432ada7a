// What follows the end of a call without a thread that waits for it.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "test/horovod_cpp/distributed/worlds.h"

namespace hvd {
namespace {

// What the callback found.
template <typename T>
std::string outcome_of(const AsyncResult<T>& handle, const ProcessSet& all) {
  auto found = std::make_shared<std::promise<std::string>>();  // lives on if the wait is given up
  handle.call()->then(all.world()->runtime().callbacks(), [handle, found] {
    if (!handle.poll()) return found->set_value("it is not done");
    try {
      handle.synchronize();
      found->set_value("a result");
    } catch (const Error&) {
      found->set_value("an error");
    }
  });
  std::future<std::string> outcome = found->get_future();
  return outcome.wait_for(std::chrono::seconds(30)) == std::future_status::ready ? outcome.get()
                                                                                 : "not called";
}

TEST(Then, IsCalledWhenAllPartsOfACallHaveEnded) {
  for (const int size : {1, 2}) {
    run_sets(size, [size](const ProcessSet& all) {
      const std::vector<Tensor> tensors = {Tensor::full({2}, 1), Tensor::full({1}, 2, DType::kI64)};
      const GroupHandle group =
          grouped_allreduce_async(tensors, {.op = ReduceOp::kSum, .process_set = all});
      EXPECT_EQ(outcome_of(group, all), "a result");
      EXPECT_EQ(group.synchronize()[1].item(), 2.0 * size);
      EXPECT_EQ(outcome_of(barrier_async({.process_set = all}), all), "a result");
    });
  }
}

// Nobody but the callback makes the next round start.
TEST(Then, GoesOnWithTheRoundsOfACompressedCall) {
  run_sets(2, [](const ProcessSet& all) {
    const CollectiveHandle call = allreduce_async(
        Tensor::full({8, 8}, 2), {.compression = Compression::powersgd(1), .process_set = all});
    EXPECT_EQ(outcome_of(call, all), "a result");
    EXPECT_NEAR(call.synchronize().to_vector()[0], 2.0, 1e-4);
  });
}

TEST(Then, IsCalledForACallThatFails) {
  run_sets(2, [](const ProcessSet& all) {
    const CollectiveHandle call =
        allreduce_async(Tensor::full({all.rank() + 1}, 1), {.name = "x", .process_set = all});
    EXPECT_EQ(outcome_of(call, all), "an error");
  });
}

}  // namespace
}  // namespace hvd
