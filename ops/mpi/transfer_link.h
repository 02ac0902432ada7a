#pragma once

#include <memory>

#include "ops/host/transfers.h"
#include "ops/mpi/messages.h"

namespace hvd {

// Transfers by messages of the data communicator; ranks count in it.
class MpiTransferLink final : public host::TransferLink {
 public:
  MpiTransferLink(std::shared_ptr<MpiCommunicator> communicator, std::size_t message_bytes);

  void say(Rank to, Bytes note) override;
  std::optional<Message> hear() override;
  void flush() override { outbox_.flush(); }
  bool said(Rank) override { return outbox_.flush(); }
  std::unique_ptr<host::TransferData> send(Rank to, const std::byte* data,
                                           std::size_t bytes) override;
  std::unique_ptr<host::TransferData> receive(Rank from, std::byte* data,
                                              std::size_t bytes) override;
  // Empty messages, which a receive() tells from its own.
  void skip(Rank to, std::size_t bytes) override;
  bool idle() override { return outbox_.flush(); }

 private:
  std::shared_ptr<MpiCommunicator> communicator_;
  std::size_t message_bytes_;
  MpiOutbox outbox_;
  MpiInbox inbox_;
};

}  // namespace hvd
