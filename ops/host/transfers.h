#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "core/runtime/control_plane.h"
#include "core/runtime/fence.h"

namespace hvd::host {

// Data of one transfer on its way. Whoever destroys it takes it back: its memory is not touched any
// more.
class TransferData {
 public:
  virtual ~TransferData() = default;
  // True when all of it has moved (a sender's: when its memory is not read any more).
  virtual bool done() = 0;
};

// What carries transfers. No call waits for another rank; things move when hear(), flush() or
// TransferData::done() are called. Ranks count in the world of the link.
class TransferLink {
 public:
  virtual ~TransferLink() = default;
  // Notes of kTransferNoteBytes; those of two ranks arrive in order, complete, once.
  virtual void say(Rank to, Bytes note) = 0;
  virtual std::optional<Message> hear() = 0;
  virtual void flush() = 0;
  // True when nothing of what this rank said to that one is on its way any more.
  virtual bool said(Rank to) = 0;
  // Between two ranks the n-th send meets the n-th receive, which has as many bytes.
  virtual std::unique_ptr<TransferData> send(Rank to, const std::byte* data, std::size_t bytes) = 0;
  virtual std::unique_ptr<TransferData> receive(Rank from, std::byte* data, std::size_t bytes) = 0;
};

inline constexpr std::size_t kTransferNoteBytes = 30;

// What a send and a receive have in common, but for the two ranks.
struct TransferKey {
  std::uint64_t set = 0;  // subset_key()
  int tag = 0;
  bool operator==(const TransferKey&) const = default;
};

// One end of a transfer between two ranks.
struct Transfer {
  bool sends = false;
  TransferKey key;
  Rank peer = 0;  // in the world of the link
  Rank from = 0;  // in the set
  Rank to = 0;
  TensorView tensor;
  std::vector<Fence> ready;  // not reached when last looked at

  bool settled = false;  // both ends are there; if they agree, the data is on its way
  Status status = {};    // kMismatch if they do not
  std::unique_ptr<TransferData> data = {};  // once settled, if they agree
};

// The transfers of one link. The sender offers, in the order of its sends; the receiver answers
// with what it expects, and only then, if the two agree, does data move. The first of several
// offers with one key belongs to the first of the receives. Move only when polled.
class Transfers {
 public:
  explicit Transfers(std::unique_ptr<TransferLink> link) : link_(std::move(link)) {}

  std::shared_ptr<Transfer> add(Transfer transfer);
  // Of a transfer that is not done: its peer will wait.
  void remove(const std::shared_ptr<Transfer>& transfer);
  void poll();
  // True when the data has moved and nothing of what this end said is on its way any more: nobody
  // might poll later.
  bool done(Transfer& transfer) {
    return transfer.settled && (transfer.data == nullptr || transfer.data->done()) &&
           link_->said(transfer.peer);
  }

 private:
  using TransferPtr = std::shared_ptr<Transfer>;

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
  void take(const Message& note);
  void take_answer(std::uint64_t id, const TensorView& expected);
  void match();
  void send_answers();

  std::unique_ptr<TransferLink> link_;
  std::uint64_t next_id_ = 0;
  std::deque<TransferPtr> sends_;                 // not offered yet
  std::map<std::uint64_t, TransferPtr> offered_;  // not answered yet
  std::list<Offer> offers_;                       // of the others, without a receive
  std::list<TransferPtr> receives_;               // without an offer
  std::list<Matched> matched_;                    // not answered yet
};

}  // namespace hvd::host
