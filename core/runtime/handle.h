#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/base/tensor_view.h"
#include "core/ports/fence.h"

namespace hvd::engine {

// What became of one tensor, besides what was written to the caller's output.
struct Result {
  // Allgather, alltoall, gather (root), scatter: allocated by the engine.
  Lease gathered = {};
  // Rows of `gathered` that came from each rank of the set.
  std::vector<std::int64_t> rows_of = {};
};

// What an operation produced.
struct Outcome {
  std::vector<Result> results = {};  // one per tensor; empty when none has any
  std::int64_t number = 0;           // add: the process set; join: the rank that joined last
  bool flagged = false;              // see Request
};

// Where the engine writes the end of a submission; thread-safe.
class Completion;
class CallbackQueue;

// The caller's end of a submission. Copies share one submission; any thread may use them. While one
// of them lives and the operation has not ended, its name may not be submitted again; once all are
// dropped it may, and runs after this one (see TensorTable).
class Handle {
 public:
  Handle() = default;  // empty: done() is true, wait() returns
  explicit Handle(std::shared_ptr<Completion> completion);
  Handle(const Handle& other);
  Handle(Handle&& other) noexcept = default;
  Handle& operator=(const Handle& other);
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();

  // True when wait() would not block.
  bool done() const;
  // Waits at most this long; true when wait() would not block. Both waits also end with what the
  // InterruptibleWaits of this thread throw; the operation goes on.
  bool wait_for(Duration limit) const;
  // Blocks until the operation ended; throws what it failed with, every time it is asked.
  const Outcome& wait() const;

  // `queue` calls `callback` once, when wait() would not block, however the operation ended; it
  // keeps the queue until then. Never on this thread. Throws AbortedError in a forked child.
  void then(std::shared_ptr<CallbackQueue> queue, std::function<void()> callback) const;

  // For callers that go on in the queue of the results' device, and need not wait there:
  // these end as soon as the operation is enqueued, where the backend can have that. Until
  // wait_for() is true the operation may still fail; then the job has ended, which whatever is
  // submitted next throws.
  bool ordered_within(Duration limit) const;
  // `past` is set to what the results are behind, or left as it is if they are there.
  const Outcome& wait_enqueued(Fence& past) const;

 private:
  std::shared_ptr<Completion> completion_;
};

}  // namespace hvd::engine
