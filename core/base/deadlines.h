#pragma once

#include <algorithm>

#include "core/base/clock.h"

// Every limit on how long a job, a call or a process waits at its end for a peer that may not
// come. Retry intervals and limits that users set are elsewhere (core/config/config.h).
namespace hvd {

// -- Runtime::shutdown(), in order. First the others' answer: HVD_SHUTDOWN_TIMEOUT_SECONDS.

// For batches started before the stop, or the stall limit where that is shorter.
inline constexpr Duration kDrainLimit = std::chrono::seconds(30);
// Within it: for batches that a rank which is gone since may have finished; for a transfer whose
// ends met, though only one of them saw it so far; for the program to say where it is, which it
// may not do while it computes.
inline constexpr Duration kLostDrainLimit = std::chrono::seconds(1);
inline constexpr Duration kTransferDrainLimit = std::chrono::seconds(1);
inline constexpr Duration kLocationLimit = std::chrono::seconds(1);
// When that is over, or the job failed: for what batches have enqueued on a device.
inline constexpr Duration kDeviceLimit = std::chrono::seconds(1);
// From the stop until all children in the tree confirmed it. After an error some of them may be
// unable to, and the slow ones find their messages later: the process is to end soon.
inline constexpr Duration kGoodbyeLimit = std::chrono::seconds(5);
inline constexpr Duration kErrorGoodbyeLimit = std::chrono::milliseconds(350);
// Within kGoodbyeLimit, on rank 0: for what the observers of other ranks saw last.
inline constexpr Duration kLastReportsLimit = std::chrono::seconds(2);
// A coordinator that makes no turn for this long is stuck inside a port, which is aborted and has
// kAbortLimit to come back.
inline constexpr Duration kStuckLimit = std::chrono::seconds(5);
inline constexpr Duration kAbortLimit = std::chrono::seconds(1);

// The longest that shutdown() takes while its thread gets a core. Zero: no stall limit.
constexpr Duration longest_shutdown(Duration shutdown_timeout, Duration stall_limit) {
  const Duration drain =
      stall_limit == Duration::zero() ? kDrainLimit : std::min(kDrainLimit, stall_limit);
  return shutdown_timeout + drain + kDeviceLimit + kGoodbyeLimit + kStuckLimit + kAbortLimit;
}
// The same of a job that has failed, whose coordinator is not stuck; kDeviceLimit counts only where
// a device hangs.
inline constexpr Duration kLongestShutdownAfterError = kDeviceLimit + kErrorGoodbyeLimit;

// -- The destructors after it

// For a thread of the engine that may be inside user code, or in a device; then it is detached.
inline constexpr Duration kThreadEndLimit = std::chrono::seconds(1);
// For the memory, streams and communicators of a GPU; then they are left until the process ends.
inline constexpr Duration kGpuTeardownLimit = std::chrono::seconds(1);
// For messages that are still queued here, or in MPI: none, unless a peer's mailbox is full. After
// an error the peer may be stopped for good, and everybody has had kErrorGoodbyeLimit already.
inline constexpr Duration kFlushLimit = std::chrono::seconds(1);
inline constexpr Duration kErrorFlushLimit = std::chrono::milliseconds(100);
// For the other ends of TCP connections to close; what is in the sockets arrives all the same.
inline constexpr Duration kCloseLimit = std::chrono::milliseconds(150);

// A process is gone within a second of its error, whatever is stopped: the rest of it is for a
// machine that is busy.
static_assert(kErrorGoodbyeLimit + kErrorFlushLimit + kCloseLimit <=
              std::chrono::milliseconds(600));

// -- Exit of the process

// For the others to come to MPI_Finalize: they may still save or evaluate.
inline constexpr Duration kMpiFinalizeLimit = std::chrono::minutes(5);

// -- Calls that tell others how they ended

// Of init(), past the deadline: for ranks that met it to tell the others why.
inline constexpr Duration kTellingLimit = std::chrono::seconds(5);
// Of rank_zero_section() that failed: for the others to get the error before this rank leaves.
inline constexpr Duration kDeliveryLimit = std::chrono::seconds(5);
// Of stop_timeline(): for what other ranks have recorded.
inline constexpr Duration kTimelineLimit = std::chrono::seconds(5);
// Of an operation on GPUs, past the stall limit: the engine, which knows the ranks, gives up first.
inline constexpr Duration kBehindEngine = std::chrono::seconds(5);

}  // namespace hvd
