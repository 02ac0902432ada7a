// What docs/a-gradient.md tells, seen in a job of two ranks: a gradient passes its stations in
// order, and lies in one place from backward() to the update.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/thread_annotations.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/horovod_cpp/distributed/worlds.h"

namespace hvd {
namespace {

using ::testing::Each;

constexpr std::int64_t kNumel = 4099;  // which nothing else has
constexpr std::int64_t kSmall = 37;    // travels with its announcement
constexpr const char* kName = "allreduce.w";

// Of one rank: where the gradient was seen, in order, and at which address where that is known.
class Trace final : public engine::Observer {
 public:
  void pass(const std::string& station) {
    const MutexLock lock(mutex_);
    stations_.push_back(station);
  }
  void pass(const std::string& station, const void* place) {
    pass(station);
    const MutexLock lock(mutex_);
    places_.push_back(place);
  }
  std::vector<std::string> take_stations() {
    const MutexLock lock(mutex_);
    return std::exchange(stations_, {});
  }
  std::vector<const void*> take_places() {
    const MutexLock lock(mutex_);
    return std::exchange(places_, {});
  }

  void submitted(const engine::SubmissionInfo& submission) override {
    if (submission.name == kName) pass("announced");
  }
  void negotiated(const engine::BatchInfo& batch) override { pass_batch("negotiated", batch); }
  void started(const engine::BatchInfo& batch) override { pass_batch("started", batch); }
  void finished(const engine::BatchInfo& batch) override { pass_batch("finished", batch); }
  void failed(std::uint64_t, std::string_view, const Status&, TimePoint) override {
    pass("failed");
  }
  void stopped(const Status&, bool) override {}

 private:
  void pass_batch(const std::string& station, const engine::BatchInfo& batch) {
    for (const engine::BatchMemberInfo& member : batch.members) {
      if (member.name == kName) pass(station);
    }
  }

  Mutex mutex_;
  std::vector<std::string> stations_ HVD_GUARDED_BY(mutex_);
  std::vector<const void*> places_ HVD_GUARDED_BY(mutex_);
};

class TracedCollective final : public engine::test::ForwardingCollective {
 public:
  TracedCollective(std::unique_ptr<engine::Collective> inner, std::shared_ptr<Trace> trace)
      : ForwardingCollective(std::move(inner)), trace_(std::move(trace)) {}

  std::unique_ptr<engine::Operation> all_reduce(std::span<const engine::Slice> slices,
                                                const Reduction& reduction) override {
    for (const engine::Slice& slice : slices) {
      if (slice.input.numel != kNumel && slice.input.numel != kSmall) continue;
      EXPECT_EQ(slice.input.data, slice.output.data);
      trace_->pass("reduced", slice.input.data);
    }
    return ForwardingCollective::all_reduce(slices, reduction);
  }

 private:
  const std::shared_ptr<Trace> trace_;
};

void train(const std::shared_ptr<World>& world, Trace& trace, std::int64_t numel) {
  const Tensor param = Tensor::zeros({numel}).requires_grad_();
  param.register_hook([&](const Tensor& leaf) { trace.pass("hook", leaf.grad().data()); });
  DistributedOptimizer optimizer(
      std::make_shared<optim::SGD>(std::vector<Tensor>{param}, optim::SGDOptions{.lr = 1}),
      {{"w", param}}, {.process_set = world->global_process_set()});
  constexpr int kMoves = 1;  // the step that ends with gradients in memory that the ranks share
  for (int step = 0; step < 4; ++step) {
    sum(param * (world->topology().rank == 0 ? 1.0 : 3.0)).backward();
    optimizer.step();
    trace.pass("update", param.grad().data());
    EXPECT_THAT(param.grad().to_vector(), Each(2));
    // Before that it is announced in full, twice, or not alone: the memory is being made.
    const bool by_root = numel == kSmall && step > kMoves + 1;
    std::vector<std::string> stations = {"hook",    "announced", "negotiated", "started",
                                         "reduced", "finished",  "update"};
    if (by_root) std::erase(stations, "reduced");
    EXPECT_EQ(trace.take_stations(), stations) << "step " << step;
    std::vector<const void*> places = trace.take_places();
    if (step == kMoves) places.pop_back();  // it has moved after it was reduced
    EXPECT_THAT(places, Each(places.front())) << "step " << step;
    optimizer.zero_grad();
  }
}

void train_two_ranks(std::int64_t numel) {
  engine::SimWorld sim(2);
  engine::test::run_ranks(2, [&](Rank rank) {
    const auto trace = std::make_shared<Trace>();
    std::vector<std::unique_ptr<engine::Collective>> collectives;
    collectives.push_back(std::make_unique<TracedCollective>(sim.collective(rank), trace));
    // A gradient that also says that parameters are compared after this step travels in full.
    const auto world = std::make_shared<World>(
        std::make_unique<engine::Runtime>(sim.control_plane(rank), std::move(collectives), Config{},
                                          engine::ObserverList{trace}),
        WorldOptions{.check_parameters = false});
    train(world, *trace, numel);
    world->shutdown();
  });
}

TEST(GradientPath, PassesItsStationsInOrderAndStaysWhereItIs) {
  train_two_ranks(kNumel);
}

TEST(GradientPath, IsShorterForWhatTravelsWithItsAnnouncement) {
  train_two_ranks(kSmall);
}

}  // namespace
}  // namespace hvd
