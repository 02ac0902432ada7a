#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/runtime/handle.h"
#include "core/runtime/submission.h"

namespace hvd::engine::test {

template <typename T>
inline constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::kI64;
template <>
inline constexpr DType kDTypeOf<std::uint8_t> = DType::kU8;

template <typename T>
using Values = std::shared_ptr<std::vector<T>>;

template <typename T>
Values<T> shared(std::vector<T> values) {
  return std::make_shared<std::vector<T>>(std::move(values));
}

template <typename T>
Lease lease(const Values<T>& values, DeviceKind device = DeviceKind::kCpu) {
  return {{values->data(), static_cast<std::int64_t>(values->size()), kDTypeOf<T>, {device, 0}},
          values};
}

template <typename T>
Shape flat(const Values<T>& values) {
  return {static_cast<std::int64_t>(values->size())};
}

// One call about one tensor or, with further parts and shapes, a group.
template <typename T>
Submission submission(CollectiveKind kind, std::string name, Shape shape, Part part,
                      DeviceKind device = DeviceKind::kCpu) {
  Submission made;
  made.request.name = std::move(name);
  made.request.kind = kind;
  made.request.dtype = kDTypeOf<T>;
  made.request.device = device;
  made.request.shapes = {std::move(shape)};
  made.parts.push_back(std::move(part));
  return made;
}

// Works in place on memory that the submission keeps alive.
template <typename T>
Submission allreduce(std::string name, const Values<T>& values, ReduceOp op = ReduceOp::kSum,
                     DeviceKind device = DeviceKind::kCpu) {
  auto made =
      submission<T>(CollectiveKind::kAllreduce, std::move(name), flat(values),
                    {.input = lease(values, device), .output = lease(values, device)}, device);
  made.request.op = op;
  return made;
}

// All of them, in place, as one.
template <typename T>
Submission grouped_allreduce(std::string name, const std::vector<Values<T>>& group,
                             ReduceOp op = ReduceOp::kSum, DeviceKind device = DeviceKind::kCpu) {
  auto made = allreduce(std::move(name), group.front(), op, device);
  for (std::size_t i = 1; i < group.size(); ++i) {
    made.request.shapes.push_back(flat(group[i]));
    made.parts.push_back({.input = lease(group[i], device), .output = lease(group[i], device)});
  }
  return made;
}

template <typename T>
Submission broadcast(std::string name, const Values<T>& values, Rank root,
                     DeviceKind device = DeviceKind::kCpu) {
  auto made = allreduce(std::move(name), values, ReduceOp::kSum, device);
  made.request.kind = CollectiveKind::kBroadcast;
  made.request.root = root;
  return made;
}

// `values` are rows of `width` elements; so for all that follows.
template <typename T>
Submission allgather(std::string name, const Values<T>& values, std::int64_t width,
                     DeviceKind device = DeviceKind::kCpu) {
  const std::int64_t rows = width == 0 ? 0 : static_cast<std::int64_t>(values->size()) / width;
  return submission<T>(CollectiveKind::kAllgather, std::move(name), {width},
                       {.input = lease(values, device), .rows = rows}, device);
}

template <typename T>
Submission gather(std::string name, const Values<T>& values, std::int64_t width, Rank root,
                  DeviceKind device = DeviceKind::kCpu) {
  auto made = allgather(std::move(name), values, width, device);
  made.request.kind = CollectiveKind::kGather;
  made.request.root = root;
  return made;
}

template <typename T>
Submission alltoall(std::string name, const Values<T>& values, std::int64_t width,
                    std::vector<std::int64_t> splits, DeviceKind device = DeviceKind::kCpu) {
  return submission<T>(CollectiveKind::kAlltoall, std::move(name), {width},
                       {.input = lease(values, device), .splits = std::move(splits)}, device);
}

// Who is not the root gives neither values nor splits.
template <typename T>
Submission scatter(std::string name, const Values<T>& values, std::int64_t width, Rank root,
                   std::vector<std::int64_t> splits, DeviceKind device = DeviceKind::kCpu) {
  auto made = alltoall(std::move(name), values, width, std::move(splits), device);
  made.request.kind = CollectiveKind::kScatter;
  made.request.root = root;
  return made;
}

template <typename T>
Submission reducescatter(std::string name, const Values<T>& values, Shape shape,
                         const Values<T>& output, ReduceOp op = ReduceOp::kSum,
                         DeviceKind device = DeviceKind::kCpu) {
  auto made =
      submission<T>(CollectiveKind::kReducescatter, std::move(name), std::move(shape),
                    {.input = lease(values, device), .output = lease(output, device)}, device);
  made.request.op = op;
  return made;
}

// In place on the root.
template <typename T>
Submission reduce(std::string name, const Values<T>& values, Rank root,
                  ReduceOp op = ReduceOp::kSum, DeviceKind device = DeviceKind::kCpu) {
  auto made = allreduce(std::move(name), values, op, device);
  made.request.kind = CollectiveKind::kReduce;
  made.request.root = root;
  return made;
}

inline Submission without_tensor(CollectiveKind kind, std::string name,
                                 DeviceKind device = DeviceKind::kCpu) {
  Submission made;
  made.request.name = std::move(name);
  made.request.kind = kind;
  made.request.device = device;
  return made;
}

inline Submission barrier(std::string name, DeviceKind device = DeviceKind::kCpu) {
  return without_tensor(CollectiveKind::kBarrier, std::move(name), device);
}

// What the handle's wait throws; empty when nothing.
inline std::string error_of(const Handle& handle) {
  try {
    handle.wait();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

inline Submission join(std::string name) {
  return without_tensor(CollectiveKind::kJoin, std::move(name));
}

inline Submission add_set(std::string name, std::vector<Rank> ranks) {
  auto made = without_tensor(CollectiveKind::kAddSet, std::move(name));
  made.request.numbers.assign(ranks.begin(), ranks.end());
  return made;
}

inline Submission remove_set(std::string name, ProcessSetId set) {
  auto made = without_tensor(CollectiveKind::kRemoveSet, std::move(name));
  made.request.numbers = {static_cast<std::int32_t>(set)};
  return made;
}

inline Submission in_set(ProcessSetId set, Submission made) {
  made.request.set = set;
  made.request.name += "@" + std::to_string(set);
  return made;
}

template <typename T>
PointToPoint send(const Values<T>& values, Rank to, int tag, DeviceKind device = DeviceKind::kCpu) {
  return {PointToPoint::Direction::kSend, to, tag, lease(values, device)};
}

template <typename T>
PointToPoint receive(const Values<T>& values, Rank from, int tag,
                     DeviceKind device = DeviceKind::kCpu) {
  return {PointToPoint::Direction::kReceive, from, tag, lease(values, device)};
}

inline PointToPoint within(const WaitLimits& limits, PointToPoint made) {
  made.limits = limits;
  return made;
}

// What the engine allocated for one tensor.
template <typename T>
std::vector<T> gathered(const Outcome& outcome, std::size_t tensor = 0) {
  const TensorView& view = outcome.results.at(tensor).gathered.view;
  const auto* first = static_cast<const T*>(view.data);
  return {first, first + view.numel};
}

inline std::vector<std::int64_t> rows_of(const Outcome& outcome, std::size_t tensor = 0) {
  return outcome.results.at(tensor).rows_of;
}

}  // namespace hvd::engine::test
