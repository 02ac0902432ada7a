#include "ops/cuda_ipc/ipc_set.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/status.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kChunks = 3;  // of a segment
constexpr Duration kPumpInterval = std::chrono::microseconds(50);

}  // namespace

IpcSet::IpcSet(const IpcPlace& place, const IpcLimits& limits, Duration limit,
               std::unique_ptr<Collective> handshakes, std::shared_ptr<const IpcAbort> abort,
               std::function<void(const std::string&)> refused)
    : place_(place),
      limits_(limits),
      limit_(limit),
      abort_(std::move(abort)),
      refused_(std::move(refused)),
      handshakes_(std::move(handshakes)),
      all_steps_(static_cast<std::size_t>(place.size)) {}

IpcSet::~IpcSet() = default;

bool IpcSet::advance(Call& call) {
  if (call.over) return true;
  if (call.instead == nullptr) pump();
  if (call.over) return true;
  if (call.instead == nullptr || !call.instead->advance()) return false;
  call.stats = call.instead->stats();
  call.over = true;
  return true;
}

void IpcSet::pump() {
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  try {
    if (abort_->is_set()) throw AbortedError("the collectives of this GPU were aborted");
    while (!calls_.empty() && run(*calls_.front())) calls_.pop_front();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

bool IpcSet::connected() {
  if (decided_) return true;
  if (connection_ == nullptr) {
    connection_ = std::make_unique<IpcConnection>(*handshakes_, place_.device, place_.rank,
                                                  place_.size, kChunks * limits_.chunk_bytes);
  }
  if (!connection_->advance()) return false;
  links_ = connection_->take_links();
  if (links_ == nullptr && place_.rank == 0) refused_(connection_->problem());
  connection_.reset();
  decided_ = true;
  return true;
}

// Whether it leaves the queue.
bool IpcSet::run(Call& call) {
  if (call.work != nullptr && !connected()) return false;
  if (call.work == nullptr || links_ == nullptr) {
    call.instead = call.staged();
    return true;
  }
  std::erase_if(call.ready, [](const Fence& fence) { return fence.reached(); });
  if (!call.ready.empty()) return false;
  while (true) {
    if (!std::exchange(progress_.enqueued, true)) enqueue_phase(*call.work);
    if (is_last_phase(*call.work)) break;
    if (!try_end_phase(*call.work)) return false;
  }
  progress_ = {.begin = phase_};
  call.over = true;
  return true;
}

bool IpcSet::is_last_phase(const IpcWork& work) const {
  if (!progress_.steps) return false;
  if (*progress_.steps == 0) return true;
  const std::uint64_t phases = *progress_.steps + static_cast<std::uint64_t>(work.stages()) - 1;
  return phase_ - progress_.begin + 1 == phases;
}

void IpcSet::enqueue_phase(IpcWork& work) {
  const std::uint64_t now = phase_ - progress_.begin;
  const std::uint64_t steps = progress_.steps.value_or(work.steps());
  for (int stage = work.stages() - 1; stage >= 0; --stage) {
    const auto behind = static_cast<std::uint64_t>(stage);
    if (now < behind || now - behind >= steps) continue;
    const std::uint64_t step = now - behind;
    const std::size_t place = (progress_.begin + step) % kChunks * limits_.chunk_bytes;
    work.enqueue(stage, step, {links_.get(), place});
  }
}

bool IpcSet::device_kept_up() {
  if (links_->mine().reached(phase_ + 2)) {  // as of phase_ - kIpcEvents + 2
    progress_.waits_since.reset();
    return true;
  }
  const TimePoint now = Clock::now();
  if (!progress_.waits_since) progress_.waits_since = now;
  const Duration waited = now - *progress_.waits_since;
  if (limit_ == Duration::zero() || waited < limit_) return false;
  throw StalledError(
      "CUDA device " + std::to_string(place_.device) + " did not finish in " +
      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()) +
      " s what rank " + std::to_string(place_.rank) + " of " + std::to_string(place_.size) +
      " of its process set gave it");
}

bool IpcSet::try_end_phase(const IpcWork& work) {
  if (handshake_ == nullptr) {
    if (!device_kept_up()) return false;
    links_->mine().record(phase_, place_.stream);
    my_steps_ = static_cast<std::int64_t>(work.steps());
    handshake_ = handshakes_->exchange({&my_steps_, 1}, all_steps_);
  }
  if (!handshake_->advance()) return false;
  handshake_.reset();
  if (!progress_.steps) {
    progress_.steps =
        static_cast<std::uint64_t>(*std::max_element(all_steps_.begin(), all_steps_.end()));
  }
  links_->wait_for_all(phase_, place_.stream);
  ++phase_;
  progress_.enqueued = false;
  return true;
}

IpcSet::Remains IpcSet::end() {
  const bool usable =
      failure_ == nullptr && handshake_ == nullptr && connection_ == nullptr && !abort_->is_set();
  calls_.clear();
  handshake_.reset();  // before the collective it uses
  return {std::move(handshakes_), std::move(connection_), std::move(links_), usable};
}

std::optional<Duration> IpcSet::poll_interval() const {
  const auto theirs = handshakes_->poll_interval();
  const bool rings = handshake_ != nullptr || connection_ != nullptr || calls_.empty();
  if (rings || failure_ != nullptr) return theirs;
  return theirs ? std::min(*theirs, kPumpInterval) : kPumpInterval;
}

}  // namespace hvd::engine
