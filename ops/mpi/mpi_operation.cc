#include "ops/mpi/mpi_operation.h"

#include <climits>

#include "ops/host/host_memory.h"
#include "ops/host/streaming_copy.h"

namespace hvd {
namespace {

constexpr std::size_t kPieces = 2;  // on their way at a time: one moves while one is reduced

}  // namespace

MpiPiece::MpiPiece(MpiOperation& operation)
    : stats_(operation.stats_),
      set_(*operation.set_),
      first_tag_(set_.first_tag(operation.number_)),
      scratch_(set_.shared().pool),
      pending_(set_.shared().communicator, set_.shared().limits.message_bytes) {}

void MpiPiece::send(std::size_t to, const std::byte* data, std::size_t bytes, int stage) {
  pending_.send(set_.world_rank(to), first_tag_ + stage, data, bytes);
}

void MpiPiece::receive(std::size_t from, std::byte* data, std::size_t bytes, int stage) {
  pending_.receive(set_.world_rank(from), first_tag_ + stage, data, bytes);
}

const std::byte* MpiPiece::packed(const host::ByteSequence& input, std::size_t first,
                                  std::size_t bytes) {
  if (const std::byte* const place = input.whole(first, bytes)) return place;
  const host::Stopwatch packing(stats_.packing);
  std::byte* const place = scratch(bytes);
  input.copy_to(place, first, bytes);
  return place;
}

std::byte* MpiPiece::place_for(const host::ByteSequence& output, std::size_t first,
                               std::size_t bytes) {
  std::byte* const place = output.whole(first, bytes);
  return place != nullptr ? place : scratch(bytes);
}

void MpiPiece::unpack(const std::byte* from, const host::ByteSequence& output, std::size_t first,
                      std::size_t bytes) {
  if (from == output.whole(first, bytes)) return;
  const host::Stopwatch unpacking(stats_.unpacking);
  output.copy_from(from, first, bytes);
}

std::size_t MpiPiece::size() const noexcept {
  return set_.size();
}

std::size_t MpiPiece::rank() const noexcept {
  return set_.rank();
}

MpiOperation::MpiOperation(std::shared_ptr<MpiSet> set, std::vector<Fence> ready)
    : set_(std::move(set)), ready_(std::move(ready)), number_(set_->begin_operation()) {
  set_->shared().communicator->begin_work();
}

MpiOperation::~MpiOperation() {
  if (!MpiOperation::withdraw()) new std::deque<Running>(std::move(pieces_));
}

bool MpiOperation::withdraw() noexcept {
  if (!finished_) {
    finish();
    // The other ranks wait for what this one will not send.
    set_->abort();
    MpiEnvironment::instance().note_failure();
  }
  std::erase_if(pieces_, [](const Running& each) { return each.piece->withdraw(); });
  return pieces_.empty();
}

void MpiOperation::finish() {
  finished_ = true;
  set_->end_operation(number_);
  set_->shared().communicator->end_work();
}

bool MpiOperation::advance() {
  if (finished_) return true;
  set_->throw_if_aborted();
  if (!host::all_reached(ready_) || !set_->may_post(number_)) return false;
  while (move_pieces() || start_pieces()) {
  }
  if (!all_started_ || !pieces_.empty()) return false;
  finish();
  return true;
}

// True if a piece moved.
bool MpiOperation::move_pieces() {
  bool moved = false;
  int limit = INT_MAX;  // the stage of the piece in front
  for (auto each = pieces_.begin(); each != pieces_.end();) {
    bool done = false;
    while (!done && each->stage < limit && each->piece->arrived()) {
      done = !each->piece->next();
      ++each->stage;
      moved = true;
    }
    if (done) {
      each = pieces_.erase(each);
    } else {
      limit = each->stage;
      ++each;
    }
  }
  return moved;
}

// True if a piece started.
bool MpiOperation::start_pieces() {
  if (all_started_ || pieces_.size() == kPieces) return false;
  auto piece = next_piece();
  if (piece == nullptr) {
    all_started_ = true;
    return false;
  }
  pieces_.push_back({std::move(piece)});
  return true;
}

}  // namespace hvd
