#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/base/dtype.h"
#include "core/base/thread_annotations.h"
#include "core/negotiate/messages/request.h"
#include "core/observe/observer.h"

namespace hvd {

// What happened on one rank, by its own clock: what a timeline is made of.
struct TimelineEvent {
  // Part of the wire format.
  enum class Kind : std::uint8_t {
    kSubmitted = 0,  // one name
    kFinished = 1,   // a batch
    kFailed = 2,     // one name
    kDropped = 3,    // `count` tensor events did not find room
    kClosed = 4,     // this rank records no more
  };
  struct Name {
    std::string_view text;
    bool automatic = false;  // not used again
  };

  Kind kind = Kind::kSubmitted;
  TimePoint at{};  // kFinished: when it finished
  std::vector<Name> names;
  CollectiveKind collective = CollectiveKind::kAllreduce;  // kSubmitted and kFinished
  // kFinished; see BatchInfo.
  std::uint64_t batch = 0;
  ProcessSetId set = kWorldSet;
  DType dtype = DType::kF32;
  std::uint64_t bytes = 0;
  std::uint64_t packed_bytes = 0;
  Duration packing = Duration::zero();
  Duration unpacking = Duration::zero();
  TimePoint negotiated{};
  TimePoint started{};
  std::string_view why;     // kFailed
  std::uint64_t count = 0;  // kDropped
};

// Keeps events in the form in which they travel, while it is switched on. Thread-safe: one thread
// records, another may take.
class TimelineRecorder {
 public:
  // Tensor events (a batch counts once a tensor) that may wait for take(); further ones are
  // dropped and counted.
  explicit TimelineRecorder(std::size_t limit) : limit_(limit) {}

  // Switched off, it says so once to the reader.
  void record(bool on);
  void submitted(const SubmissionInfo& submission);
  void finished(const BatchInfo& batch);
  void failed(std::string_view name, const Status& why, TimePoint at);
  // Everything since the last call: one block for read_timeline(), or nothing.
  Bytes take();

 private:
  bool admit(std::size_t tensors) HVD_REQUIRES(mutex_);
  void put_name(std::string_view name, bool automatic) HVD_REQUIRES(mutex_);
  void put_head(TimelineEvent::Kind kind, TimePoint at) HVD_REQUIRES(mutex_);

  const std::size_t limit_;
  Mutex mutex_;
  bool on_ HVD_GUARDED_BY(mutex_) = false;
  std::size_t held_ HVD_GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ HVD_GUARDED_BY(mutex_) = 0;
  // Names travel once a block.
  std::unordered_map<std::string, std::uint32_t> numbers_ HVD_GUARDED_BY(mutex_);
  Bytes names_ HVD_GUARDED_BY(mutex_);
  Bytes events_ HVD_GUARDED_BY(mutex_);
};

// Calls `see` for each event of a block, in order; views are
// valid during the call. Throws PeerLostError on a malformed block.
void read_timeline(std::span<const std::byte> block,
                   const std::function<void(const TimelineEvent&)>& see);

}  // namespace hvd
