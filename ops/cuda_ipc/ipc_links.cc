#include "ops/cuda_ipc/ipc_links.h"

#include <algorithm>
#include <array>
#include <functional>

#include "core/base/status.h"
#include "ops/cuda/reduce.h"

namespace hvd::engine {

void IpcLinks::wait_for_all(std::uint64_t number, cudaStream_t stream) {
  for (const auto& peer : peers_) {
    if (peer != nullptr) peer->wait_for(number, stream);
  }
}

// First an invitation, with handles, then an answer; each with what went wrong, if anything did.
struct IpcConnection::HandshakeMessage {
  std::array<char, 256> problem;  // a text that ends with 0; empty if there is none
  IpcHandles handles;
};

namespace {

// Runs `work`; what it threw, as far as `problem` has room.
void attempt(std::array<char, 256>& problem, const std::function<void()>& work) {
  problem = {};
  try {
    work();
  } catch (const Error& error) {
    const std::string text = error.what();
    std::copy_n(text.begin(), std::min(text.size(), problem.size() - 1), problem.begin());
  }
}

}  // namespace

IpcConnection::IpcConnection(Collective& handshakes, int device, Rank rank, int size,
                             std::size_t bytes)
    : handshakes_(handshakes),
      device_(device),
      rank_(rank),
      size_(static_cast<std::size_t>(size)),
      bytes_(bytes),
      mine_(1),
      all_(size_) {
  write_invitation();
  send();
}

IpcConnection::~IpcConnection() = default;

void IpcConnection::write_invitation() {
  attempt(mine_.front().problem, [this] {
    if (size_ > ReduceInputs::kMostRanks) {
      throw UnsupportedError(std::to_string(size_) + " ranks, and at most " +
                             std::to_string(ReduceInputs::kMostRanks) + " can share memory");
    }
    segment_ = std::make_unique<IpcSegment>(device_, bytes_);
    mine_.front().handles = segment_->handles();
  });
}

void IpcConnection::open_invitations() {
  attempt(mine_.front().problem, [this] {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      const bool is_mine = rank == static_cast<std::size_t>(rank_);
      peers_.push_back(is_mine ? nullptr : std::make_unique<IpcPeer>(device_, all_[rank].handles));
    }
  });
}

void IpcConnection::send() {
  const GatherSlice message = {mine_.data(), all_.data(),
                               std::vector<std::size_t>(size_, sizeof(HandshakeMessage))};
  under_way_ = handshakes_.all_gather({&message, 1});
}

std::string IpcConnection::first_problem() const {
  for (std::size_t rank = 0; rank < size_; ++rank) {
    const auto& text = all_[rank].problem;
    if (text.front() == 0) continue;
    return "rank " + std::to_string(rank) + " of " + std::to_string(size_) + ": " +
           std::string(text.begin(), std::find(text.begin(), text.end(), 0));
  }
  return "";
}

bool IpcConnection::advance() {
  while (under_way_ != nullptr) {
    if (!under_way_->advance()) return false;
    under_way_.reset();
    problem_ = first_problem();
    if (!problem_.empty()) {
      if (!invited_ || closed_) break;
      peers_.clear();  // on all ranks, before any frees its segment
      closed_ = true;
      send();
      continue;
    }
    if (invited_) {
      links_ = std::make_unique<IpcLinks>(rank_, std::move(segment_), std::move(peers_));
      break;
    }
    invited_ = true;
    open_invitations();
    send();
  }
  return true;
}

}  // namespace hvd::engine
