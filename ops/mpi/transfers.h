#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "core/base/status.h"
#include "core/base/tensor_view.h"
#include "core/runtime/fence.h"
#include "ops/mpi/messages.h"
#include "ops/mpi/pending.h"

namespace hvd {

// What a send and a receive have in common, but for the two ranks.
struct TransferKey {
  std::uint64_t set = 0;  // MpiSet::key()
  int tag = 0;
  bool operator==(const TransferKey&) const = default;
};

// One end of a transfer between two ranks.
struct Transfer {
  bool sends = false;
  TransferKey key;
  Rank peer = 0;  // in the communicator
  Rank from = 0;  // in the set
  Rank to = 0;
  TensorView tensor;
  std::vector<Fence> ready;  // not reached when last looked at

  bool settled = false;  // both ends are there; if they agree, the data is on its way
  Status status = {};    // kMismatch if they do not
  MpiPending pending;
};

// The transfers of one communicator. The sender offers, in the order of its sends; the receiver
// answers with what it expects, and only then, if the two agree, does data move. The first of
// several offers with one key belongs to the first of the receives. Move only when polled.
class MpiTransfers {
 public:
  explicit MpiTransfers(std::shared_ptr<MpiCommunicator> communicator);

  // `transfer.pending` is of this communicator.
  std::shared_ptr<Transfer> add(Transfer transfer);
  // Of a transfer that is not done: its peer will wait.
  void remove(const std::shared_ptr<Transfer>& transfer);
  void poll();
  // True when nothing of what the ends say is on its way any more.
  bool flush() { return outbox_.flush(); }

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
  void take(const MpiInbox::Arrival& arrival);
  void take_answer(std::uint64_t id, const TensorView& expected);
  void match();
  void send_answers();
  std::shared_ptr<MpiCommunicator> communicator_;
  MpiOutbox outbox_;
  MpiInbox inbox_;
  std::uint64_t next_id_ = 0;
  std::deque<TransferPtr> sends_;                 // not offered yet
  std::map<std::uint64_t, TransferPtr> offered_;  // not answered yet
  std::list<Offer> offers_;                       // of the others, without a receive
  std::list<TransferPtr> receives_;               // without an offer
  std::list<Matched> matched_;                    // not answered yet
};

}  // namespace hvd
