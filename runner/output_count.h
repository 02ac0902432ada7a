#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/unique_fd.h"

namespace hvd::runner {

// How many bytes an agent has read of a program's output, in memory that the program sees too. What
// was written so far is that and what waits in the pipes, so that a rank which speaks over a
// connection of its own (cluster/worker.py) can say how much output comes before its message
// without asking the agent.
class OutputCount {
 public:
  // For the program's environment: this text and place().
  static constexpr const char* kVariable = "HVDRUN_OUTPUT_COUNT";

  // Throws InternalError.
  OutputCount();
  ~OutputCount();
  OutputCount(const OutputCount&) = delete;
  OutputCount& operator=(const OutputCount&) = delete;

  // The memory's path and inode, and those of the pipes as /proc shows them: in another container,
  // or behind a script with pipes of its own, the program finds others, and must not count.
  std::string place(int out, int err) const;
  // While the agent reads, the number is odd: bytes may be neither in the pipe nor counted.
  void begin_read() { count().fetch_add(1); }
  void end_read(std::size_t bytes) { count().fetch_add(2 * bytes - 1); }

 private:
  std::atomic_ref<std::uint64_t> count() const { return std::atomic_ref(*memory_); }

  UniqueFd file_;
  std::uint64_t* memory_ = nullptr;  // twice the bytes, plus one during a read
};

}  // namespace hvd::runner
