#include "ops/shm/transfer_link.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hvd {
namespace {

constexpr std::size_t kPadding = 4096;  // bytes at a time

}  // namespace

class ShmTransferLink::Data final : public host::TransferData {
 public:
  explicit Data(Outgoing stream) : outgoing_(std::move(stream)) {}
  explicit Data(Incoming stream) : incoming_(std::move(stream)) {}
  ~Data() override { Data::withdraw(false); }
  bool withdraw(bool /*for_good*/) noexcept override {
    if (outgoing_ != nullptr) outgoing_->at = nullptr;
    if (incoming_ != nullptr) incoming_->at = nullptr;
    return true;
  }
  bool done() override { return (outgoing_ != nullptr ? outgoing_->left : incoming_->left) == 0; }

 private:
  Outgoing outgoing_;
  Incoming incoming_;
};

ShmTransferLink::ShmTransferLink(const DataSegment& segment) : segment_(segment) {
  const int mine = segment.rank();
  for (Rank r = 0; r < segment.ranks(); ++r) {
    peers_.push_back({r, segment.notes(mine, r), segment.notes(r, mine), segment.data(mine, r),
                      segment.data(r, mine)});
  }
}

void ShmTransferLink::say(Rank to, Bytes note) {
  Peer& there = peer(to);
  there.unsaid.insert(there.unsaid.end(), note.begin(), note.end());
  flush(there);
}

bool ShmTransferLink::said(Rank to) {
  flush(peer(to));
  return peer(to).unsaid.empty();
}

void ShmTransferLink::flush() {
  for (Peer& each : peers_) flush(each);
}

void ShmTransferLink::flush(Peer& peer) {
  if (!peer.unsaid.empty()) {
    const std::size_t count = peer.notes_to.write(peer.unsaid);
    peer.unsaid.erase(peer.unsaid.begin(),
                      peer.unsaid.begin() + static_cast<std::ptrdiff_t>(count));
    if (count > 0) segment_.ring(peer.rank);
  }
  move_out(peer);
  move_in(peer);
}

std::optional<Message> ShmTransferLink::hear() {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& from = peers_[(next_ + i) % peers_.size()];
    if (from.notes_from.readable() < host::kTransferNoteBytes) continue;
    Message note{from.rank, Bytes(host::kTransferNoteBytes)};
    if (from.notes_from.read(note.bytes)) segment_.ring(from.rank);
    next_ = (next_ + i + 1) % peers_.size();
    return note;
  }
  return std::nullopt;
}

std::unique_ptr<host::TransferData> ShmTransferLink::send(Rank to, const std::byte* data,
                                                          std::size_t bytes) {
  auto stream = std::make_shared<Stream<const std::byte>>(Stream<const std::byte>{data, bytes});
  if (bytes > 0) peer(to).sending.push_back(stream);
  move_out(peer(to));
  return std::make_unique<Data>(std::move(stream));
}

std::unique_ptr<host::TransferData> ShmTransferLink::receive(Rank from, std::byte* data,
                                                             std::size_t bytes) {
  auto stream = std::make_shared<Stream<std::byte>>(Stream<std::byte>{data, bytes});
  if (bytes > 0) peer(from).receiving.push_back(stream);
  move_in(peer(from));
  return std::make_unique<Data>(std::move(stream));
}

void ShmTransferLink::skip(Rank to, std::size_t bytes) {
  send(to, nullptr, bytes);
}

bool ShmTransferLink::idle() {
  const auto goes_on = [](const auto& stream) { return stream->at != nullptr; };
  return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& each) {
    return each.unsaid.empty() && std::all_of(each.sending.begin(), each.sending.end(), goes_on) &&
           std::all_of(each.receiving.begin(), each.receiving.end(), goes_on);
  });
}

void ShmTransferLink::move_out(Peer& peer) {
  static constexpr std::array<std::byte, kPadding> kZeroes{};
  bool moved = false;
  while (!peer.sending.empty()) {
    auto& [at, left] = *peer.sending.front();
    if (at == nullptr && !peer.unsaid.empty()) break;
    const std::size_t wanted = at != nullptr ? left : std::min(left, kPadding);
    const std::size_t count = peer.data_to.write({at != nullptr ? at : kZeroes.data(), wanted});
    if (count == 0) break;
    moved = true;
    if (at != nullptr) at += count;
    left -= count;
    if (left == 0) peer.sending.pop_front();
  }
  if (moved) segment_.ring(peer.rank);
}

void ShmTransferLink::move_in(Peer& peer) {
  std::array<std::byte, kPadding> dropped;
  while (!peer.receiving.empty()) {
    auto& [at, left] = *peer.receiving.front();
    const std::size_t wanted = at != nullptr ? left : std::min(left, kPadding);
    const std::size_t count = std::min(peer.data_from.readable(), wanted);
    if (count == 0) break;
    if (peer.data_from.read({at != nullptr ? at : dropped.data(), count})) {
      segment_.ring(peer.rank);
    }
    if (at != nullptr) at += count;
    left -= count;
    if (left == 0) peer.receiving.pop_front();
  }
}

}  // namespace hvd
