#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "core/runtime/runtime.h"
#include "ops/sim/sim_world.h"

namespace hvd::test {

// One Runtime a rank, meeting in memory.
class SimRanks {
 public:
  using Wrap = std::function<std::unique_ptr<Collective>(Rank, std::unique_ptr<Collective>)>;

  // `wrap` may put something in front of a rank's collective.
  explicit SimRanks(int size, SimOptions options = {}, const Config& config = {},
                    const Wrap& wrap = {})
      : world(size, options) {
    for (Rank rank = 0; rank < size; ++rank) add(rank, config, wrap);
  }

  Runtime& operator[](Rank rank) { return *runtimes[static_cast<std::size_t>(rank)]; }
  int size() const { return world.size(); }

  SimWorld world;
  std::vector<std::unique_ptr<Runtime>> runtimes;

 private:
  void add(Rank rank, const Config& config, const Wrap& wrap) {
    std::vector<std::unique_ptr<Collective>> collectives;
    auto collective = world.collective(rank);
    collectives.push_back(wrap ? wrap(rank, std::move(collective)) : std::move(collective));
    runtimes.push_back(
        std::make_unique<Runtime>(world.control_plane(rank), std::move(collectives), config));
  }
};

template <typename T>
inline constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::kI64;

template <typename T>
Lease lease(const std::shared_ptr<std::vector<T>>& values, DeviceKind device = DeviceKind::kCpu) {
  return {{values->data(), static_cast<std::int64_t>(values->size()), kDTypeOf<T>, {device, 0}},
          values};
}

// Works in place on memory that the submission keeps alive.
template <typename T>
Submission allreduce(std::string name, const std::shared_ptr<std::vector<T>>& values,
                     ReduceOp op = ReduceOp::kSum, DeviceKind device = DeviceKind::kCpu) {
  Submission submission;
  submission.request = {.name = std::move(name),
                        .dtype = kDTypeOf<T>,
                        .device = device,
                        .op = op,
                        .shape = {static_cast<std::int64_t>(values->size())}};
  submission.input = lease(values, device);
  submission.output = lease(values, device);
  return submission;
}

template <typename T>
Submission broadcast(std::string name, const std::shared_ptr<std::vector<T>>& values, Rank root,
                     DeviceKind device = DeviceKind::kCpu) {
  Submission submission = allreduce(std::move(name), values, ReduceOp::kSum, device);
  submission.request.kind = CollectiveKind::kBroadcast;
  submission.request.root = root;
  return submission;
}

// `values` are rows of `width` elements.
template <typename T>
Submission allgather(std::string name, const std::shared_ptr<std::vector<T>>& values,
                     std::int64_t width, DeviceKind device = DeviceKind::kCpu) {
  Submission submission;
  submission.request = {.name = std::move(name),
                        .kind = CollectiveKind::kAllgather,
                        .dtype = kDTypeOf<T>,
                        .device = device,
                        .shape = {width}};
  submission.input = lease(values, device);
  if (width != 0) submission.rows = static_cast<std::int64_t>(values->size()) / width;
  return submission;
}

template <typename T>
std::shared_ptr<std::vector<T>> shared(std::vector<T> values) {
  return std::make_shared<std::vector<T>>(std::move(values));
}

template <typename T>
std::vector<T> gathered(const Outcome& outcome) {
  const auto* first = static_cast<const T*>(outcome.gathered.view.data);
  return {first, first + outcome.gathered.view.numel};
}

}  // namespace hvd::test
