#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/base/allocators.h"
#include "core/base/clock.h"
#include "core/runtime/callback_queue.h"
#include "core/runtime/handle.h"
#include "core/runtime/wake/submission_group.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {

// The result of a collective call of any kind.
struct CallResult {
  RecycledVector<Tensor> tensors = {};
  // Rows of the first tensor that came from each rank of the set: allgather, alltoall, gather,
  // scatter.
  std::vector<std::int64_t> rows_of = {};
  std::int64_t number = 0;  // join: the rank that joined last
};

// The handle of a CUDA stream; none = those of the tensors: Tensor::stream().
using MaybeStream = std::optional<std::uintptr_t>;

// A call in flight. Any thread. Calls of several rounds (compression) advance when asked.
//
// Results on a GPU are there for what is put on their streams afterwards; the host does not wait
// for the device (except with HVD_GPU_OPERATIONS=ipc or HOROVOD_ENABLE_ASYNC_COMPLETION=0). If work
// that is enqueued fails later, the job ends, and whatever is called next throws, naming it.
class CallInFlight : public std::enable_shared_from_this<CallInFlight> {
 public:
  virtual ~CallInFlight() = default;
  // Waits until result() would not block, at most until the deadline; whether it would not.
  virtual bool wait_until(TimePoint deadline) = 0;
  // Waits for the end; throws what the call failed with, every time it is asked. `reader`: the
  // stream for which results in other libraries' memory are there, instead of that memory's.
  virtual const CallResult& result(MaybeStream reader) = 0;
  // `queue` calls `callback` once, when result() would not block.
  void then(const std::shared_ptr<engine::CallbackQueue>& queue, std::function<void()> callback);
  // Of an allreduce whose result() is there: whether it was flagged on any rank, see Request.
  // Throws as result() does.
  virtual bool flagged() const { return false; }
  // Where its tensors are, or some of them: a GPU if any is there.
  virtual Device device() const { return {}; }
  // What result() waits for next; an empty handle when it would not block.
  virtual engine::Handle awaited() = 0;
};

struct AlltoallResult {
  Tensor output;
  std::vector<std::int64_t> received_splits;  // rows of `output` from each rank of the set
};

template <typename T>
T take_result(const CallResult& result) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return result.tensors.empty() ? Tensor() : result.tensors.front();
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    return {result.tensors.begin(), result.tensors.end()};
  } else if constexpr (std::is_same_v<T, AlltoallResult>) {
    return {result.tensors.front(), result.rows_of};
  } else if constexpr (std::is_same_v<T, int>) {
    return static_cast<int>(result.number);
  }
}

// A collective call in flight whose result is a T. Copies share it. Dropping all of them does not
// cancel the call.
template <typename T>
class AsyncResult {
 public:
  AsyncResult() = default;  // empty: done, with an empty result
  explicit AsyncResult(std::shared_ptr<CallInFlight> call) : call_(std::move(call)) {}

  // True when synchronize() would not block.
  bool poll() const { return wait_for(Duration::zero()); }
  // Waits at most this long; true when synchronize() would not block.
  bool wait_for(Duration limit) const {
    return call_ == nullptr || call_->wait_until(Clock::now() + limit);
  }
  // Waits for the result, on a GPU as CallInFlight says; throws what the call failed with. May be
  // called again.
  T synchronize() const {
    if (call_ == nullptr) return take_result<T>({});
    return take_result<T>(call_->result({}));
  }
  // The same, with everything that is known about it.
  CallResult result(MaybeStream reader = {}) const {
    return call_ == nullptr ? CallResult{} : call_->result(reader);
  }

  const std::shared_ptr<CallInFlight>& call() const { return call_; }  // null if it is empty

 private:
  std::shared_ptr<CallInFlight> call_;
};

using CollectiveHandle = AsyncResult<Tensor>;
using GroupHandle = AsyncResult<std::vector<Tensor>>;
using AlltoallHandle = AsyncResult<AlltoallResult>;
using BarrierHandle = AsyncResult<void>;
using JoinHandle = AsyncResult<int>;

// Waits for every one of them, even if some fail, so that no tensor is in flight any more; then
// throws what the first one that failed did.
void synchronize_all(const std::vector<CollectiveHandle>& handles);

// Waits for the call that `start()` makes.
template <typename Start>
auto start_and_wait(Start start) {
  const auto handle = [&] {
    const engine::SubmissionGroup group;
    return start();
  }();
  return handle.synchronize();
}

// Horovod's spelling of the handle's methods.
template <typename T>
bool poll(const AsyncResult<T>& handle) {
  return handle.poll();
}
template <typename T>
T synchronize(const AsyncResult<T>& handle) {
  return handle.synchronize();
}

}  // namespace hvd
