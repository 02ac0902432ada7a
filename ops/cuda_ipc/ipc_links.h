#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/topology.h"
#include "ops/cuda_ipc/ipc_memory.h"

namespace hvd::engine {

// The segments of all ranks of a set, as this rank reaches them.
class IpcLinks {
 public:
  // `peers` by rank, empty where `rank` is.
  IpcLinks(Rank rank, std::unique_ptr<IpcSegment> mine, std::vector<std::unique_ptr<IpcPeer>> peers)
      : rank_(rank), mine_(std::move(mine)), peers_(std::move(peers)) {}

  Rank rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(peers_.size()); }
  IpcSegment& mine() const noexcept { return *mine_; }
  const std::byte* data(Rank of) const noexcept {
    return of == rank_ ? mine_->data() : peers_[static_cast<std::size_t>(of)]->data();
  }
  // `stream` waits for that event of all other ranks.
  void wait_for_all(std::uint64_t number, cudaStream_t stream);
  // The other ranks' segments are not used any more.
  void close_peers() { peers_.clear(); }

 private:
  Rank rank_;
  std::unique_ptr<IpcSegment> mine_;
  std::vector<std::unique_ptr<IpcPeer>> peers_;
};

// How the ranks of a set get links. Polled, nothing waits.
class IpcConnection {
 public:
  // Segments of `bytes` bytes. Uses `handshakes`, a collective of host memory, until it is over or
  // destroyed.
  IpcConnection(Collective& handshakes, int device, Rank rank, int size, std::size_t bytes);
  ~IpcConnection();

  // True when all ranks know whether they are connected. Throws what `handshakes` does.
  bool advance();
  // Once it is over: the links, or nothing, on all ranks alike: then problem() says why.
  std::unique_ptr<IpcLinks> take_links() { return std::move(links_); }
  const std::string& problem() const noexcept { return problem_; }

 private:
  struct HandshakeMessage;
  void write_invitation();
  void open_invitations();
  void send();
  std::string first_problem() const;

  Collective& handshakes_;
  const int device_;
  const Rank rank_;
  const std::size_t size_;
  const std::size_t bytes_;
  std::unique_ptr<IpcSegment> segment_;
  std::vector<std::unique_ptr<IpcPeer>> peers_;
  std::vector<HandshakeMessage> mine_;  // one
  std::vector<HandshakeMessage> all_;
  std::unique_ptr<Operation> under_way_;
  bool invited_ = false;
  bool closed_ = false;  // what was opened, after a problem
  std::unique_ptr<IpcLinks> links_;
  std::string problem_;
};

}  // namespace hvd::engine
