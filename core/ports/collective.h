#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/clock.h"
#include "core/base/reduction.h"
#include "core/base/tensor_view.h"
#include "core/base/topology.h"
#include "core/ports/fence.h"

namespace hvd::engine {

// Where a tensor begins in an arena: agreed, and equal on all ranks.
struct SlicePlace {
  std::uint64_t arena = 0;   // its number
  std::uint64_t offset = 0;  // bytes
};

// One tensor of a fused batch. `input` and `output` have equal numel and dtype and may be the same
// memory (in place) but must not overlap otherwise.
struct Slice {
  TensorView input;
  TensorView output;
  // All-reduce in a lossy wire format: numel values that are added to the prescaled input before it
  // is encoded and then hold what the encoding lost (error feedback: Karimireddy et al. 2019). A
  // rank that encodes a part of the sum again adds that loss to its own residual, so that over many
  // steps outputs sum to what inputs do, less what the residuals hold. May be null.
  float* residual = nullptr;
  // All-reduce: all ranks agreed that input and output are the same memory and begin here, so that
  // each may read and write the others' where it lies, or reduce neighbours as one. Absent = no
  // other rank touches it. Slices of one call are all in one arena or all in none.
  std::optional<SlicePlace> place = {};
  // All-reduce: not 0 if the slices of the call are one submission: tells it from others, and is
  // equal on all ranks. See show_early().
  std::uint64_t submission = 0;
};

// One tensor of a fused reduce-scatter: rank r gets numel_of[r] elements of the reduced input, in
// rank order; their sum is input.numel. `output` is this rank's part and may be where it stands in
// the input.
struct ScatterSlice {
  TensorView input;
  TensorView output;
  std::vector<std::int64_t> numel_of;
};

// One tensor of a fused all-gather: rank r contributes bytes_of[r] bytes; `output` has room for
// their sum, in rank order. `input` may be where it stands in the output.
struct GatherSlice {
  const void* input = nullptr;
  void* output = nullptr;
  std::vector<std::size_t> bytes_of;
};

// One tensor of a fused all-to-all: bytes_to[r] bytes of `input` go to rank r and bytes_from[r]
// bytes of `output` come from it, both in rank order without gaps. A gather or a scatter is one in
// which most counts are 0.
struct ExchangeSlice {
  const void* input = nullptr;
  void* output = nullptr;
  std::vector<std::size_t> bytes_to;
  std::vector<std::size_t> bytes_from;
};

// What a finished operation did on this rank.
struct OperationStats {
  std::size_t packed_bytes = 0;  // of this rank's contribution as it travels
  Duration packing = Duration::zero();
  Duration unpacking = Duration::zero();
};

// One running collective. Used and destroyed by the coordinator, except that on an asynchronous
// device it is destroyed by the completion thread, after a fence past it was reached.
class Operation {
 public:
  virtual ~Operation() = default;
  // Does what can be done now and never waits; true when this rank's part is finished (for an
  // asynchronous device: enqueued). Throws Error when it cannot finish; it is over then.
  virtual bool advance() = 0;
  // Gives the operation up if it is not finished. True when the tensors' memory is not touched any
  // more; false while something still uses it that cannot be stopped (MPI): then the operation and
  // the memory have to be kept until a later call answers true. An asynchronous device may use the
  // memory until it has reached a fence past the operation all the same.
  virtual bool withdraw() noexcept { return true; }
  // Of what was done so far.
  virtual OperationStats stats() const { return {}; }
};

// Communication memory. `data` stays valid while a copy of `owner` lives.
struct Buffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// One rank's part of an arena: communication memory of one size on all ranks.
struct ArenaMemory {
  Buffer mine;  // nothing, if it is not shared
  // all_reduce takes places in it, and reduces there what has one; equal on all ranks. Whether the
  // ranks reach each other's parts for that is the backend's affair.
  bool shared = false;
};

// Port: how bytes move. One per rank, process set and device kind; all ranks start the same
// operations in the same order. Used by the coordinator thread alone, except abort(). The tensors'
// memory (and the spans given to exchange) must live until the operation is destroyed. The slices
// of one call have one dtype. What has no meaning throws InvalidArgumentError at the call, on every
// rank, and nothing was started: what check_reduction() refuses, kAverage, a rank that is not
// there, counts that do not fit.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual DeviceKind device() const noexcept = 0;
  // Aligned to 64 bytes.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Memory, aligned alike, for operations that are started later; what they wrote may be the
  // caller's. A device hands it out and takes it back in the order of its work: nothing waits.
  virtual Buffer allocate_result(std::size_t bytes) { return allocate(bytes); }
  // Makes an arena of `bytes` bytes on every rank; collective, under a number that is not 0 and
  // never used again here. `made` is filled in when the operation is finished. Other ranks may
  // write into `made.mine` while an operation in it runs here, and after abort(). What lies between
  // slices is not touched. Backends to which places are of no use leave it at this, an arena that
  // is not shared; so does one that finds no memory for it on some rank.
  virtual std::unique_ptr<Operation> make_arena(std::uint64_t number, std::size_t bytes,
                                                ArenaMemory& made);
  // Copies host memory into memory of the above; work started later sees it. What serves a device
  // overrides it, and waits for nothing that is under way there.
  virtual void write(const void* from, void* to, std::size_t bytes);
  // Work started later begins only past `ready`; the host does not wait for it.
  virtual void after(const Fence& ready) = 0;

  // Slices with a place: finished when no rank reads or writes this rank's memory any more.
  // kAdasum treats each slice by itself (ops/host/adasum.h has the order of the ranks). In a lossy
  // wire format blocks do not reach beyond a slice, and all ranks get the same bits.
  virtual std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                                const Reduction& reduction) = 0;
  // Reduces on this rank, at once, what is here of `ranks` (ascending): `numel` elements of host
  // memory each. The result has the bits that an all_reduce() among them has; false if this backend
  // cannot tell them.
  virtual bool reduce_here(std::span<const Rank> /*ranks*/, std::span<const void* const> /*inputs*/,
                           DType, std::int64_t /*numel*/, const Reduction&,
                           void* /*result*/) const {
    return false;
  }
  // What this rank will bring to an all_reduce of just these slices, which probably is the next
  // operation: the others may read it once they have started that, though this rank has not. A
  // hint, which changes no result: if another operation comes first it is as if it had not been.
  virtual void show_early(std::span<const Slice> /*slices*/) {}
  // That all_reduce will never come, and what came of show_early() is not to be read.
  virtual void hide_early() noexcept {}
  virtual std::unique_ptr<Operation> reduce_scatter(std::span<const ScatterSlice> slices,
                                                    const Reduction& reduction) = 0;
  // On the root: input is sent (and copied to output); elsewhere: output is written.
  virtual std::unique_ptr<Operation> broadcast(std::span<const Slice> slices, Rank root) = 0;
  virtual std::unique_ptr<Operation> all_gather(std::span<const GatherSlice> slices) = 0;
  virtual std::unique_ptr<Operation> all_to_all(std::span<const ExchangeSlice> slices) = 0;
  // Host integers whatever the device: sizes that differ by rank. all.size() = size * mine.size().
  virtual std::unique_ptr<Operation> exchange(std::span<const std::int64_t> mine,
                                              std::span<std::int64_t> all) = 0;

  // One tensor from one rank to another, which has called receive() with the same tag; outside the
  // order of the other operations. Calls of one pair and tag belong together in order. No data
  // moves before both are there; a send and a receive that differ in dtype or numel both throw
  // MismatchError from advance(), and nothing else is disturbed. One that is withdrawn before it
  // has met its other end is as if it had never been; one that had met it fails the other end alone
  // (StalledError), unless that has all of the data. Host memory: what follows between the two
  // ranks is served as ever.
  virtual std::unique_ptr<Operation> send(const TensorView& tensor, Rank to, int tag) = 0;
  virtual std::unique_ptr<Operation> receive(const TensorView& tensor, Rank from, int tag) = 0;

  // A Collective among some ranks of this one, numbered 0, 1, ... there in the given ascending
  // order; this rank is one of them. All of them call it, with the same number, which is never used
  // again; none waits. abort() here ends its operations too.
  virtual std::unique_ptr<Collective> subset(std::uint32_t number, std::span<const Rank> ranks) = 0;

  // How soon to advance running operations although the doorbell did not ring; empty = only when
  // rung. What cannot ring (MPI) answers a back-off of at most 100 us while any of its operations
  // runs, those of subsets included, and a longer one while progress() is needed.
  virtual std::optional<Duration> poll_interval() const { return std::nullopt; }
  // As a ControlPlane's.
  virtual std::optional<Duration> prepare_sleep() { return poll_interval(); }
  // Moves what no operation of this rank waits for any more, though another rank may: what MPI took
  // from a send that has ended and did not put on the wire yet. At every turn of the loop.
  virtual void progress(TimePoint /*now*/) {}
  // A point past everything started so far.
  virtual Fence fence() = 0;
  // Running operations throw from advance() soon. Any thread.
  virtual void abort() noexcept = 0;
};

}  // namespace hvd::engine
