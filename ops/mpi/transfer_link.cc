#include "ops/mpi/transfer_link.h"

#include "core/base/status.h"
#include "ops/mpi/pending.h"

namespace hvd {
namespace {

// MPI takes back neither a send nor a receive that has met one, and messages find their receives in
// order: what is withdrawn goes on, from and to memory that has to be kept.
class MpiTransferData final : public host::TransferData {
 public:
  MpiTransferData(const std::shared_ptr<MpiCommunicator>& communicator, std::size_t message_bytes)
      : pending(communicator, message_bytes) {}
  ~MpiTransferData() override {
    if (!pending.withdraw()) MpiEnvironment::instance().note_failure();
  }
  bool done() override { return pending.test(); }
  bool arrived() const override { return pending.complete(); }
  bool withdraw(bool for_good) noexcept override {
    if (for_good) return pending.withdraw();
    try {
      return pending.test();
    } catch (const Error&) {
      return pending.withdraw();  // nothing follows on a broken link
    }
  }

  MpiPending pending;
};

}  // namespace

MpiTransferLink::MpiTransferLink(std::shared_ptr<MpiCommunicator> communicator,
                                 std::size_t message_bytes)
    : communicator_(communicator),
      message_bytes_(message_bytes),
      outbox_(communicator, communicator->data()),
      inbox_(communicator, communicator->data(), MPI_ANY_SOURCE,
             static_cast<int>(MpiTag::kTransfer)) {}

void MpiTransferLink::say(Rank to, Bytes note) {
  outbox_.send(to, MpiTag::kTransfer, std::move(note));
}

std::optional<Message> MpiTransferLink::hear() {
  auto arrival = inbox_.poll();
  if (!arrival) return std::nullopt;
  communicator_->note_progress();
  return std::move(arrival->message);
}

std::unique_ptr<host::TransferData> MpiTransferLink::send(Rank to, const std::byte* data,
                                                          std::size_t bytes) {
  auto sending = std::make_unique<MpiTransferData>(communicator_, message_bytes_);
  sending->pending.send(to, static_cast<int>(MpiTag::kTransferData), data, bytes);
  return sending;
}

std::unique_ptr<host::TransferData> MpiTransferLink::receive(Rank from, std::byte* data,
                                                             std::size_t bytes) {
  auto receiving = std::make_unique<MpiTransferData>(communicator_, message_bytes_);
  receiving->pending.receive(from, static_cast<int>(MpiTag::kTransferData), data, bytes);
  return receiving;
}

void MpiTransferLink::skip(Rank to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += message_bytes_) {
    outbox_.send(to, MpiTag::kTransferData, {});
  }
}

}  // namespace hvd
