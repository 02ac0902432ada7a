#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/tensor_view.h"

namespace hvd {

// What an operation produced besides writing the caller's output.
struct Outcome {
  // Allgather only: the concatenation, allocated by the engine, and every rank's first dimension.
  Lease gathered;
  std::vector<std::int64_t> rows_of;
};

// Where the engine writes the end of a submission; thread-safe.
class Completion;

// The caller's end of a submission. Copies share one submission; any thread may use them.
class Handle {
 public:
  Handle() = default;  // empty: done() is true, wait() returns
  explicit Handle(std::shared_ptr<Completion> completion) : completion_(std::move(completion)) {}

  // True when wait() would not block.
  bool done() const;
  // Waits at most this long; true when wait() would not block.
  bool wait_for(Duration limit) const;
  // Blocks until the operation ended; throws what it failed with, every time it is asked.
  const Outcome& wait() const;

 private:
  std::shared_ptr<Completion> completion_;
};

}  // namespace hvd
