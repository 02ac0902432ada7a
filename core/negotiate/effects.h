#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "core/base/topology.h"
#include "core/negotiate/fusion_plan.h"
#include "core/negotiate/messages/request.h"

namespace hvd::engine {

// Names one submission on its own rank; the caller's choice, never sent.
using Ticket = std::uint64_t;

// ---- effects: what the runtime must do, in the order of the log

struct BatchMember {
  Ticket ticket = 0;  // 0 = this rank has joined: it brings the neutral element
  std::shared_ptr<const Request> request;
};

// One fused batch: every member has this key, except an arena that a joined rank cannot bring:
// then it says 0.
struct RunBatch {
  std::uint64_t number = 0;  // counts batches, equal on all ranks; given back to finished()
  FusionKey key;
  int divisor = 1;        // ranks that contribute: what an average divides by
  std::size_t bytes = 0;  // of the tensors, alignment gaps included
  std::vector<BatchMember> members;
  // Of a small allreduce that rank 0 has reduced; empty = this rank has to run it.
  Bytes result = {};
};

// The process set exists from here on; its Collective has to be made before the next effect.
struct SetAdded {
  Ticket ticket = 0;
  ProcessSetId set = kWorldSet;
  std::vector<Rank> ranks;  // ascending
};

// Nothing of the set follows.
struct SetRemoved {
  Ticket ticket = 0;
  ProcessSetId set = kWorldSet;
};

// All ranks of the set have joined, and may submit again.
struct AllJoined {
  Ticket ticket = 0;
  Rank last = 0;  // who joined last, the same on all of them
};

// Rank 0 wants to know what this rank's program is doing: answer with
// RankProtocol::status_reported().
struct ProbeRanks {};

// The submission failed; the job goes on.
struct FailTicket {
  Ticket ticket = 0;
  Status status;
};

// A report for the user (stall warning): log it.
struct Report {
  std::string text;
};

// The last effect: every pending submission fails with `why`. After an orderly end the batches that
// were issued before it still finish; otherwise nothing runs any more and they are aborted.
struct Stopped {
  Status why;
  bool orderly = false;  // a rank left; its number is in `why`
  // What this rank has pending for longest, and which of its submissions that is.
  std::string waits_for = {};  // empty = nothing
  std::uint64_t waits_number = 0;
};

using Effect = std::variant<RunBatch, FailTicket, SetAdded, SetRemoved, AllJoined, ProbeRanks,
                            Report, Stopped>;

struct OutgoingMessage {
  Rank to = 0;
  Bytes bytes;
};

}  // namespace hvd::engine
