#include "ops/mpi/mpi_control_plane.h"

#include <algorithm>
#include <thread>

namespace hvd {
namespace {

constexpr std::chrono::microseconds kFlush{100};  // between looks at what is on its way

}  // namespace

MpiControlPlane::MpiControlPlane(std::shared_ptr<MpiCommunicator> communicator, Placement placement,
                                 std::vector<Rank> peers)
    : placement_(std::move(placement)),
      topology_(topology_of(placement_)),
      peers_(std::move(peers)),
      communicator_(communicator),
      outbox_(communicator, communicator->control()),
      failure_notices_(communicator, communicator->control()),
      inbox_(communicator, communicator->control(), MPI_ANY_SOURCE) {}

MpiControlPlane::~MpiControlPlane() {
  const TimePoint deadline = Clock::now() + flush_limit_;
  try {
    if (failure_pending_) tell_failure();
    while (!(outbox_.flush() && failure_notices_.flush()) && Clock::now() < deadline) {
      std::this_thread::sleep_for(kFlush);
    }
  } catch (const Error&) {
    MpiEnvironment::instance().note_failure();  // whom it was for is gone
  }
}

void MpiControlPlane::send(Rank to, std::span<const std::byte> message) {
  communicator_->note_progress();
  outbox_.send(to, MpiTag::kControl, Bytes(message.begin(), message.end()));
}

std::optional<Duration> MpiControlPlane::poll_interval() const {
  return communicator_->poll_interval();
}

std::optional<Message> MpiControlPlane::poll() {
  if (failure_pending_) tell_failure();
  outbox_.flush();
  auto arrival = inbox_.poll();
  if (!arrival) return std::nullopt;
  communicator_->note_progress();
  if (arrival->tag == MpiTag::kControl) return std::move(arrival->message);
  const auto& text = arrival->message.bytes;
  const Rank from = arrival->message.from;
  throw LostRankError(
      from, "rank " + std::to_string(from) + " on host " + host_name(from) +
                " failed: " + std::string(reinterpret_cast<const char*>(text.data()), text.size()));
}

void MpiControlPlane::abort(const Status& why) noexcept {
  if (aborted_.exchange(true)) return;
  MpiEnvironment::instance().note_failure();
  reason_ = why.message();
  failure_pending_ = true;
  if (MpiEnvironment::instance().concurrent()) tell_failure();
  doorbell_.ring();  // otherwise the coordinator tells
}

void MpiControlPlane::tell_failure() noexcept {
  if (!failure_pending_.exchange(false)) return;
  const auto* text = reinterpret_cast<const std::byte*>(reason_.data());
  for (const Rank to : peers_) {
    try {
      failure_notices_.send(to, MpiTag::kFailure, Bytes(text, text + reason_.size()));
    } catch (const Error&) {
      continue;  // gone already: it need not know
    }
  }
}

}  // namespace hvd
