#include "ops/shm/shm_set.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kPadding = 4096;  // bytes at a time

// What is left of a transfer. Once it is withdrawn, zeroes are sent, behind the note that says so,
// and what comes is dropped: what follows in the ring must not move.
template <typename Byte>
struct Stream {
  Byte* at;  // nullptr: withdrawn
  std::size_t left;
};

template <typename Byte>
class StreamData final : public host::TransferData {
 public:
  explicit StreamData(std::shared_ptr<Stream<Byte>> stream) : stream_(std::move(stream)) {}
  ~StreamData() override { stream_->at = nullptr; }
  bool withdraw(bool /*for_good*/) noexcept override {
    stream_->at = nullptr;
    return true;
  }
  bool done() override { return stream_->left == 0; }

 private:
  std::shared_ptr<Stream<Byte>> stream_;
};

// Transfers through the rings of a segment, whose ranks it counts: one ring for notes and one for
// data, which needs no framing, because both ends know what comes and in which order.
class ShmTransferLink final : public host::TransferLink {
 public:
  // `segment` outlives this.
  explicit ShmTransferLink(const DataSegment& segment) : segment_(segment) {
    using enum DataSegment::RingOf;
    const int mine = segment.rank();
    for (Rank r = 0; r < segment.ranks(); ++r) {
      peers_.push_back({r, segment.ring_of(mine, r, kNotes), segment.ring_of(r, mine, kNotes),
                        segment.ring_of(mine, r, kData), segment.ring_of(r, mine, kData)});
    }
  }

  void say(Rank to, Bytes note) override {
    Peer& there = peer(to);
    there.unsaid.insert(there.unsaid.end(), note.begin(), note.end());
    flush(there);
  }
  std::optional<Message> hear() override {
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
  void flush() override {
    for (Peer& each : peers_) flush(each);
  }
  bool said(Rank to) override {
    flush(peer(to));
    return peer(to).unsaid.empty();
  }
  std::unique_ptr<host::TransferData> send(Rank to, const std::byte* data,
                                           std::size_t bytes) override {
    auto sending = start(peer(to).sending, data, bytes);
    move_out(peer(to));
    return sending;
  }
  std::unique_ptr<host::TransferData> receive(Rank from, std::byte* data,
                                              std::size_t bytes) override {
    auto receiving = start(peer(from).receiving, data, bytes);
    move_in(peer(from));
    return receiving;
  }
  void skip(Rank to, std::size_t bytes) override { send(to, nullptr, bytes); }
  bool idle() override {
    const auto goes_on = [](const auto& stream) { return stream->at != nullptr; };
    return std::all_of(peers_.begin(), peers_.end(), [&](const Peer& each) {
      return each.unsaid.empty() &&
             std::all_of(each.sending.begin(), each.sending.end(), goes_on) &&
             std::all_of(each.receiving.begin(), each.receiving.end(), goes_on);
    });
  }

 private:
  struct Peer {
    Rank rank;
    ByteRing notes_to, notes_from, data_to, data_from;
    Bytes unsaid = {};  // notes that the ring had no room for
    std::deque<std::shared_ptr<Stream<const std::byte>>> sending = {};
    std::deque<std::shared_ptr<Stream<std::byte>>> receiving = {};
  };

  Peer& peer(Rank rank) { return peers_[static_cast<std::size_t>(rank)]; }

  template <typename Byte>
  static std::unique_ptr<host::TransferData> start(
      std::deque<std::shared_ptr<Stream<Byte>>>& streams, Byte* data, std::size_t bytes) {
    auto stream = std::make_shared<Stream<Byte>>(Stream<Byte>{data, bytes});
    if (bytes > 0) streams.push_back(stream);
    return std::make_unique<StreamData<Byte>>(std::move(stream));
  }

  void flush(Peer& peer) {
    if (!peer.unsaid.empty()) {
      const std::size_t count = peer.notes_to.write(peer.unsaid);
      peer.unsaid.erase(peer.unsaid.begin(),
                        peer.unsaid.begin() + static_cast<std::ptrdiff_t>(count));
      if (count > 0) segment_.ring(peer.rank);
    }
    move_out(peer);
    move_in(peer);
  }

  void move_out(Peer& peer) {
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

  void move_in(Peer& peer) {
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

  const DataSegment& segment_;
  std::vector<Peer> peers_;
  std::size_t next_ = 0;  // which is heard first
};

}  // namespace

ShmShared::ShmShared(std::unique_ptr<DataSegment> the_segment, ArenaFiles the_arenas)
    : segment(std::move(the_segment)),
      arenas(std::move(the_arenas)),
      transfers(std::make_unique<ShmTransferLink>(*segment)) {}

void ShmShared::settle_departures() noexcept {
  std::erase_if(departures, [this](const Departure& each) {
    const auto place = segment->find_place(each.key);
    if (place) segment->leave_place(*place, each.members);
    return place.has_value();
  });
}

ShmSet::ShmSet(std::shared_ptr<ShmShared> shared)
    : RankSet(shared->segment->rank(), shared->segment->ranks()),
      shared_(std::move(shared)),
      place_(DataSegment::kWorldPlace) {}

ShmSet::ShmSet(const std::shared_ptr<const ShmSet>& parent, std::uint32_t number,
               std::vector<Rank> members)
    : ShmSet(parent->shared_, parent, number, std::move(members)) {
  // What is thrown from here on runs the destructor, which leaves the set.
  shared_->settle_departures();
  if (rank() != 0) return;
  place_ = shared_->segment->give_place(key(), world_ranks());
  ring_others();
}

ShmSet::ShmSet(std::shared_ptr<ShmShared> shared, const std::shared_ptr<const ShmSet>& parent,
               std::uint32_t number, std::vector<Rank> members)
    : RankSet(parent, number, shared->segment->rank(), std::move(members)),
      shared_(std::move(shared)) {}

ShmSet::~ShmSet() {
  if (key() == host::kWorldKey) return;
  if (place()) {
    shared_->segment->leave_place(*place_, world_ranks());
  } else {
    shared_->departures.push_back({key(), world_ranks()});
  }
}

std::optional<ShmSet::Place> ShmSet::place() noexcept {
  if (!place_) place_ = segment().find_place(key());
  return place_;
}

std::span<const ShmSet::Side> ShmSet::lane_of(std::uint64_t operation) {
  const std::size_t lanes = segment().limits().lanes;
  if (lanes_.empty()) {
    if (!place()) return {};
    if (!segment().has_memory(*place_)) {
      throw UnsupportedError("there was no memory for this process set when it was added");
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      for (const Rank member : world_ranks()) {
        lanes_.push_back({&segment().progress(*place_, member, lane),
                          {segment().chunk(*place_, member, lane, 0),
                           segment().chunk(*place_, member, lane, 1)}});
      }
    }
  }
  return std::span(lanes_).subspan(operation % lanes * size(), size());
}

void ShmSet::show_early(std::uint64_t submission, const host::ByteSequence& bytes) {
  if (!place() || !segment().has_memory(*place_)) return;
  const std::span<const Side> sides = lane_of(next_operation_);
  const std::uint64_t begin = flags_before(next_operation_, segment().limits());
  for (const Side& each : sides) {
    if (each.progress->read.load(std::memory_order_seq_cst) < begin) return;
  }
  const Side& own = sides[rank()];
  bytes.show_to(own.chunks[0], 0, bytes.bytes());
  own.progress->early.store(early_flag(next_operation_, submission), std::memory_order_seq_cst);
}

void ShmSet::hide_early() noexcept {
  for (std::size_t at = rank(); at < lanes_.size(); at += size()) {
    lanes_[at].progress->early.store(0);
  }
}

void ShmSet::ring_others() const noexcept {
  for (std::size_t r = 0; r < size(); ++r) {
    if (r != rank()) ring(r);
  }
}

void ShmSet::abort() noexcept {
  RankSet::abort();
  segment().ring(segment().rank());
}

}  // namespace hvd::engine
