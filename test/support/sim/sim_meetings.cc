#include "test/support/sim/sim_meetings.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "ops/host/arguments.h"
#include "ops/host/host_memory.h"

namespace hvd::engine {

void SimMeetings::add_set(std::uint64_t key, const std::vector<Rank>& world_ranks) {
  const MutexLock lock(mutex_);
  if (sets_.try_emplace(key, world_ranks).first->second == world_ranks) return;
  throw InternalError("a rank makes a subset of other ranks than those before it");
}

std::uint64_t SimMeetings::arrive(Lane lane, const host::RankSet& set, const SimCallPtr& call) {
  const MutexLock lock(mutex_);
  const std::uint64_t number = next_[{set.key(), lane, static_cast<Rank>(set.rank())}]++;
  if (call->withdrawn || set.is_aborted()) return number;
  Meeting& meeting = meetings_[{set.key(), lane, number}];
  meeting.calls.resize(set.size());
  meeting.parts.resize(set.size());
  meeting.calls[set.rank()] = call;
  meeting.parts[set.rank()] = call->pack();
  if (++meeting.arrived == set.size()) complete(meeting);
  return number;
}

void SimMeetings::complete(Meeting& meeting) {
  const auto& calls = meeting.calls;
  // The rank of one that is withdrawn is gone: the others wait until they are told.
  if (std::ranges::any_of(calls, [](const auto& call) { return call->withdrawn; })) return;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    meeting.due.push_back(Clock::now() + random_delay(random_, max_delay_));
    if (calls[rank]->signature == calls[0]->signature) continue;
    meeting.error = "ranks 0 and " + std::to_string(rank) +
                    " started operations that do not belong together: " + calls[0]->signature +
                    " and " + calls[rank]->signature;
  }
  changed_.notify_all();
  network_.ring_all();
}

bool SimMeetings::collect_locked(const Key& key, const host::RankSet& set, SimCall& call) {
  set.throw_if_aborted();
  const auto it = meetings_.find(key);
  if (it == meetings_.end() || it->second.due.empty()) return false;
  Meeting& meeting = it->second;
  if (max_delay_ != Duration::zero() && Clock::now() < meeting.due[set.rank()]) return false;
  if (!meeting.error.empty()) throw InternalError(meeting.error);
  if (!call.withdrawn) call.finish(meeting.parts);
  if (++meeting.collected == set.size()) meetings_.erase(it);
  return true;
}

bool SimMeetings::collect(Lane lane, std::uint64_t number, const host::RankSet& set,
                          SimCall& call) {
  const MutexLock lock(mutex_);
  return collect_locked({set.key(), lane, number}, set, call);
}

void SimMeetings::wait_and_collect(Lane lane, std::uint64_t number, const host::RankSet& set,
                                   SimCall& call) {
  const MutexLock lock(mutex_);
  while (!collect_locked({set.key(), lane, number}, set, call)) {
    if (max_delay_ == Duration::zero()) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_for(mutex_, std::max<Duration>(max_delay_ / 4, std::chrono::microseconds(20)));
    }
  }
}

void SimMeetings::withdraw(SimCall& call) {
  const MutexLock lock(mutex_);
  call.withdrawn = true;
}

void SimMeetings::wake() {
  const MutexLock lock(mutex_);
  changed_.notify_all();
}

SimTransfers::TransferPtr SimTransfers::add(host::Transfer transfer) {
  const auto added = std::make_shared<Timed>(Timed{std::move(transfer), {}});
  const MutexLock lock(mutex_);
  Line& line = lines_[key_of(*added)];
  (added->sends ? line.sends : line.receives).push_back(added);
  return added;
}

void SimTransfers::meet(const Key& key) {
  Line& line = lines_[key];
  while (!line.sends.empty() && !line.receives.empty()) {
    auto& send = static_cast<Timed&>(*line.sends.front());
    auto& receive = static_cast<Timed&>(*line.receives.front());
    if (!send.ready.empty() || !receive.ready.empty()) return;
    send.status = receive.status =
        host::transfer_mismatch(send.tensor, receive.tensor, send.from, send.to, send.key.tag);
    if (send.status.ok() && send.tensor.bytes() != 0) {
      std::memcpy(receive.tensor.data, send.tensor.data, send.tensor.bytes());
    }
    for (Timed* const end : {&send, &receive}) {
      end->due = Clock::now() + random_delay(random_, max_delay_);
      end->settled = true;
      network_.doorbell(end->peer).ring();
    }
    line.sends.pop_front();
    line.receives.pop_front();
  }
  if (line.sends.empty() && line.receives.empty()) lines_.erase(key);
}

bool SimTransfers::done(host::Transfer& transfer) {
  const MutexLock lock(mutex_);
  if (!transfer.settled && host::all_reached(transfer.ready)) meet(key_of(transfer));
  if (!transfer.settled) return false;
  return max_delay_ == Duration::zero() || Clock::now() >= static_cast<Timed&>(transfer).due;
}

bool SimTransfers::withdraw(const TransferPtr& transfer, bool /*for_good*/) noexcept {
  const MutexLock lock(mutex_);
  if (transfer->settled) return true;
  Line& line = lines_[key_of(*transfer)];
  std::erase(transfer->sends ? line.sends : line.receives, transfer);
  meet(key_of(*transfer));  // those behind it may be ready
  return true;
}

}  // namespace hvd::engine
