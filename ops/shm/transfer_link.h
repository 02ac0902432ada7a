#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "ops/host/transfers.h"
#include "ops/shm/data_segment.h"

namespace hvd {

// Transfers through the rings of a segment, whose ranks it counts: one ring for notes and one for
// data, which needs no framing, because both ends know what comes and in which order.
class ShmTransferLink final : public host::TransferLink {
 public:
  // `segment` outlives this.
  explicit ShmTransferLink(const DataSegment& segment);

  void say(Rank to, Bytes note) override;
  std::optional<Message> hear() override;
  void flush() override;
  bool said(Rank to) override;
  std::unique_ptr<host::TransferData> send(Rank to, const std::byte* data,
                                           std::size_t bytes) override;
  std::unique_ptr<host::TransferData> receive(Rank from, std::byte* data,
                                              std::size_t bytes) override;
  void skip(Rank to, std::size_t bytes) override;
  bool idle() override;

 private:
  class Data;
  // What is left of a transfer. Once it is withdrawn, zeroes are sent, behind the note that says
  // so, and what comes is dropped: what follows in the ring must not move.
  template <typename Byte>
  struct Stream {
    Byte* at;  // nullptr: withdrawn
    std::size_t left;
  };
  using Outgoing = std::shared_ptr<Stream<const std::byte>>;
  using Incoming = std::shared_ptr<Stream<std::byte>>;

  struct Peer {
    Rank rank;
    ByteRing notes_to, notes_from, data_to, data_from;
    Bytes unsaid = {};  // notes that the ring had no room for
    std::deque<Outgoing> sending = {};
    std::deque<Incoming> receiving = {};
  };

  Peer& peer(Rank rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void flush(Peer& peer);
  void move_out(Peer& peer);
  void move_in(Peer& peer);

  const DataSegment& segment_;
  std::vector<Peer> peers_;
  std::size_t next_ = 0;  // who is heard first
};

}  // namespace hvd
