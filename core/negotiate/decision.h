#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/clock.h"
#include "core/negotiate/messages/announcement.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

// What is decided by. Rank 0's are the first entry of the log, so they are equal everywhere.
struct NegotiationSettings {
  std::size_t fusion_threshold = 1 << 20;  // bytes; 0 = no fusion
  std::size_t cache_capacity = 4096;       // slots
  int batches_in_flight = 4;
  Duration batching_gap = Duration::zero();
  Duration stall_warning = std::chrono::seconds(60);  // zero = never
  Duration stall_limit = std::chrono::seconds(600);   // zero = never
  // Fuse only what was submitted as a group.
  bool deterministic = false;
  std::size_t eager_bytes = 0;  // at most, that a rank sends with an announcement: see EagerValues
  bool observed = false;        // every rank sends what its observers saw to rank 0
};

// ---- steps of the log

// Everything that follows is done under these; the first step of every log.
struct ChangeSettings {
  NegotiationSettings settings;
};
// `slot` stands for `request` from here on; a slot that is there keeps its name. A slot that is
// defined `once` is free again after its first run.
struct DefineSlot {
  SlotNumber slot = 0;
  std::shared_ptr<const Request> request;
  bool once = false;
};
// One fused batch, or process sets to add or remove one after the other: `count` slots from `first`
// on in Decision::slots.
struct RunSlots {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  Bytes result = {};  // of one small allreduce that rank 0 has reduced; empty = the ranks run it
};
// The pending submission of `name` fails on every rank that is expected in its process set, and
// the call's others on the ranks that have them.
struct RejectName {
  ProcessSetId set = kWorldSet;
  std::string name;
  Status why;
  std::uint32_t others = 0;  // a bit for each number_of()
};
// A rank that has this slot's name pending announces it again in full.
struct EvictSlot {
  SlotNumber slot = 0;
};
// From here on no rank waits for this one in this process set, until all of its ranks have joined.
struct JoinRank {
  Joining joining;
};
// Every rank answers with a RankStatus.
struct Ask {};
// Orderly end; nothing follows.
struct Stop {
  Status why;
};

using Step =
    std::variant<ChangeSettings, DefineSlot, RunSlots, RejectName, EvictSlot, JoinRank, Ask, Stop>;

// Message down the tree: the next entry of the log. Every rank applies entries in number order.
struct Decision {
  std::uint64_t number = 0;
  std::vector<Step> steps;
  std::vector<SlotNumber> slots;  // what the RunSlots steps point into

  std::span<const SlotNumber> slots_of(const RunSlots& run) const {
    return std::span(slots).subspan(run.first, run.count);
  }
  // Keeps the storage.
  void clear();
};

// The reader reuses the storage of `decision`, and expects the end of the message behind it. Throws
// PeerLostError on a malformed message.
template <typename Io>
void serialize(Io& io, Fields<Io, Decision>& decision);

}  // namespace hvd::engine
