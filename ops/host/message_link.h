#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/ports/control_plane.h"

namespace hvd::engine::host {

// What tells messages apart: between two ranks those of equal keys meet in the order in which they
// are posted, whatever other keys do.
struct MessageKey {
  std::uint64_t set = 0;        // RankSet::key()
  std::uint64_t operation = 0;  // counted in the set, on all ranks alike
  std::uint32_t stage = 0;      // of the operation; less than kMessageStages - 1
  bool operator==(const MessageKey&) const = default;
};

inline constexpr std::uint32_t kMessageStages = 4;

// Of the data of sends and receives. Neither that nor a note holds up what a stream has behind it:
// its receive was posted before it was sent, and a note needs none. Both may wait for messages of
// operations in front of them (ops/README.md).
inline constexpr MessageKey kTransferKey = {.stage = kMessageStages - 1};

// Messages on their way, from and to memory of others, which must live until arrived() or
// withdraw() says so. Ranks count in the world of the link. No call waits.
class Messages {
 public:
  // Withdraws them; what still uses memory then is the link's to keep off it.
  virtual ~Messages() = default;
  // An empty one too is sent; none is longer than the limits' piece_bytes or small_bytes.
  virtual void send(Rank to, const MessageKey& key, std::span<const std::byte> data) = 0;
  virtual void receive(Rank from, const MessageKey& key, std::span<std::byte> data) = 0;
  // Moves what can be moved; true when all have. Throws Error when the link to a rank is broken.
  virtual bool arrived() = 0;
  // After arrived(): whether all that came was as long as was expected.
  virtual bool complete() const noexcept = 0;
  // Gives them up. False if the link still uses their memory: to be asked again.
  virtual bool withdraw() noexcept = 0;
};

struct MessageLimits {
  // All-reduces of up to this many bytes over all ranks go whole to all of them, which saves a
  // step; larger ones of more than two ranks are scattered, reduced and gathered.
  std::size_t small_bytes = std::size_t{32} << 10;
  // Larger operations move piece by piece. Bounds the scratch memory, and lets one piece be reduced
  // while others move.
  std::size_t piece_bytes = std::size_t{32} << 20;
  // Pieces of an operation that are on their way at a time.
  std::size_t pieces = 2;
  // Operations of a set from the oldest that runs, which the link can tell apart.
  std::uint64_t operations = UINT64_MAX;
};

// Port of the collectives on host memory whose ranks send each other messages (MessageCollective):
// a network. One per rank; used by the thread that runs the coordinator's loop, except abort().
class MessageLink {
 public:
  virtual ~MessageLink() = default;

  virtual Rank rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const MessageLimits& limits() const noexcept = 0;

  virtual std::unique_ptr<Messages> messages() = 0;

  // Short notes; those of two ranks arrive in order, complete, once, whether or not anybody awaits
  // them.
  virtual void say(Rank to, Bytes note) = 0;
  virtual std::optional<Message> hear() = 0;
  // Moves what was said; true when nothing of it is on its way any more.
  virtual bool flush() = 0;

  // A set's messages are sent and awaited only in between. Throws UnsupportedError when the link
  // cannot tell another set's from those that are open.
  virtual void open_set(std::uint64_t /*key*/) {}
  virtual void close_set(std::uint64_t /*key*/) noexcept {}

  // What runs over the link counts itself here, so that it knows how soon it has to be polled.
  virtual void begin_work() noexcept = 0;
  virtual void end_work() noexcept = 0;
  // See Collective. `restless`: something moves only when polled that has not begun any work.
  virtual std::optional<Duration> poll_interval(bool restless) const = 0;
  virtual std::optional<Duration> prepare_sleep(bool restless) { return poll_interval(restless); }
  // See Collective; true if it looked for messages.
  virtual bool progress(TimePoint now) = 0;
  // An operation was given up half way: its peers wait for what will not come. Any thread.
  virtual void operation_failed() noexcept {}
};

}  // namespace hvd::engine::host
