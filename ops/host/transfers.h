#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "core/ports/fence.h"

namespace hvd::engine::host {

// Data of one transfer on its way.
class TransferData {
 public:
  virtual ~TransferData() = default;
  // True when all of it has moved (a sender's: when its memory is not read any more).
  virtual bool done() = 0;
  // Of a receiver's that is done: false if the sender skip()ped it.
  virtual bool arrived() const { return true; }
  // Gives it up; what follows between the two ranks moves as ever, unless `for_good`: then nothing
  // follows. True when its memory is not touched any more, else to be asked again.
  virtual bool withdraw(bool for_good) noexcept = 0;
};

// What carries transfers. No call waits for another rank; things move when hear(), flush() or
// TransferData::done() are called. Ranks count in the world of the link.
class TransferLink {
 public:
  virtual ~TransferLink() = default;
  // Notes of kTransferNoteBytes; those of two ranks arrive in order, complete, once. A note is
  // heard no later than what is skip()ped or withdrawn after it arrives.
  virtual void say(Rank to, Bytes note) = 0;
  virtual std::optional<Message> hear() = 0;
  virtual void flush() = 0;
  // True when nothing of what this rank said to that one is on its way any more.
  virtual bool said(Rank to) = 0;
  // Between two ranks the n-th send meets the n-th receive, which has as many bytes.
  virtual std::unique_ptr<TransferData> send(Rank to, const std::byte* data, std::size_t bytes) = 0;
  virtual std::unique_ptr<TransferData> receive(Rank from, std::byte* data, std::size_t bytes) = 0;
  // In place of a send() of this many bytes.
  virtual void skip(Rank to, std::size_t bytes) = 0;
  // True when nothing of what was said, skipped or withdrawn is on its way any more.
  virtual bool idle() = 0;
};

inline constexpr std::size_t kTransferNoteBytes = 30;

// What a send and a receive have in common, except the two ranks.
struct TransferKey {
  std::uint64_t set = 0;  // subset_key()
  int tag = 0;
  bool operator==(const TransferKey&) const = default;
};

// One end of a transfer between two ranks, known to Transfers until it is done or withdrawn.
struct Transfer {
  bool sends = false;
  TransferKey key;
  Rank peer = 0;  // in the world of the link
  Rank from = 0;  // in the set
  Rank to = 0;
  TensorView tensor;
  std::vector<Fence> ready;  // not reached when last looked at

  std::uint64_t number = 0;  // in the order of add()
  std::uint64_t offer = 0;   // the sender's number of it; a receive's once answered
  bool settled = false;      // both ends are there; if they agree, the data is on its way
  bool withdrawn = false;
  bool given_up = false;   // a receive's: by the sender, after it was answered
  bool overtaken = false;  // a receive's: a later one of its key has met a later send
  Status status = {};      // kMismatch if the ends do not agree; kStalled: see Transfers
  std::unique_ptr<TransferData> data = {};  // once settled, if they agree
};

// The transfers of one link. The sender offers, in the order of its sends; the receiver answers
// with what it expects, and only then, if the two agree, does data move. The first of several
// offers with one key belongs to the first of the receives. Move only when polled.
//
// A receive without an offer, or an offer without an answer, is withdrawn as if it had never been:
// the sender takes the offer back, and the receiver says that it has forgotten it. If an answer is
// on its way meanwhile, the receiver learns that this one will not come, and the sender skips what
// is expected. Data half way goes on without the end that withdrew: see TransferData.
//
// A receive whose offer is taken back after it was answered goes back to its place in line, as if
// that send had never been; also one that expected something else, which is a mismatch only when
// the sender confirms it. If a later receive of its key has met a later send meanwhile, messages
// would change their order: then it fails with kStalled.
class Transfers {
 public:
  explicit Transfers(std::unique_ptr<TransferLink> link) : link_(std::move(link)) {}

  std::shared_ptr<Transfer> add(Transfer transfer);
  // Gives up a transfer that is not done; `for_good`: the link is not used any more. True when its
  // memory is not touched any more, else to be asked again.
  bool withdraw(const std::shared_ptr<Transfer>& transfer, bool for_good) noexcept;
  void poll();
  // True when the data has moved and nothing of what this end said is on its way any more: no rank
  // might poll later. Once `status` is an error there is nothing to wait for.
  bool done(Transfer& transfer);
  // Something that was withdrawn is not settled with the other rank: to be polled now and then.
  bool unsettled() const { return taken_back_ > 0 || restless_; }
  // Some of that moves only when polled.
  bool restless() const { return restless_; }
  // No rank may have sent or received yet.
  bool used() const { return next_number_ > 0; }

 private:
  using TransferPtr = std::shared_ptr<Transfer>;

  // One of this rank.
  struct Offered {
    TransferPtr transfer;  // nullptr: taken back
    Rank peer = 0;
    TensorView sent;  // without data
  };
  // One of another rank.
  struct Offer {
    Rank from = 0;
    std::uint64_t id = 0;  // the sender's
    TransferKey key;
    TensorView sent;  // without data
  };
  struct Matched {
    TransferPtr receive;
    Offer offer;
  };

  void send_offers();
  void hear();
  void take(const Message& note);
  void take_answer(std::uint64_t id, const TensorView& expected);
  void take_back(Rank from, std::uint64_t id);
  void match();
  void send_answers();
  void leave(const TransferPtr& transfer);
  void give_up_data(Transfer& transfer);
  void wait_again(const TransferPtr& receive);
  void send_was_given_up(const TransferPtr& receive);
  void mark_overtaken(const Transfer& later);
  void offer_again(const Offer& offer);

  std::unique_ptr<TransferLink> link_;
  std::uint64_t next_number_ = 0;
  std::uint64_t next_id_ = 0;
  std::deque<TransferPtr> sends_;             // not offered yet
  std::map<std::uint64_t, Offered> offered_;  // not answered yet
  std::size_t taken_back_ = 0;                // of them
  bool restless_ = false;
  std::list<Offer> offers_;          // of the others, without a receive, those of a rank in order
  std::list<TransferPtr> receives_;  // without an offer, in order
  std::list<Matched> matched_;       // not answered yet
  // By offer: data is on its way, or the sender is to confirm that the ends do not agree.
  std::map<std::pair<Rank, std::uint64_t>, TransferPtr> answered_;
};

// One end of a Collective's send and receive. A Set has the Transfers of its link (shared()),
// is told what works on it, and may be aborted.
template <typename Set>
class TransferOperation final : public Operation {
 public:
  TransferOperation(std::shared_ptr<Set> set, Transfer transfer)
      : set_(std::move(set)), transfer_(set_->shared().transfers.add(std::move(transfer))) {
    set_->begin_transfer();
  }
  ~TransferOperation() override { TransferOperation::withdraw(); }
  TransferOperation(const TransferOperation&) = delete;
  TransferOperation& operator=(const TransferOperation&) = delete;

  bool advance() override {
    if (over_) return true;
    set_->throw_if_aborted();
    auto& transfers = set_->shared().transfers;
    transfers.poll();
    if (!transfers.done(*transfer_)) return false;
    transfer_->status.throw_if_error();
    end();
    return true;
  }

  bool withdraw() noexcept override {
    if (over_) return true;
    if (!set_->shared().transfers.withdraw(transfer_, set_->is_aborted())) return false;
    end();
    return true;
  }

  OperationStats stats() const override {
    return {.packed_bytes = transfer_->sends ? transfer_->tensor.bytes() : 0};
  }

 private:
  void end() noexcept {
    over_ = true;
    set_->end_transfer();
  }

  std::shared_ptr<Set> set_;
  std::shared_ptr<Transfer> transfer_;
  bool over_ = false;
};

}  // namespace hvd::engine::host
