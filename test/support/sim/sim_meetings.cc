#include "test/support/sim/sim_meetings.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"

namespace hvd {

SimMeetings::SimMeetings(int size, Duration max_delay, std::uint64_t seed, SimNetwork& network)
    : max_delay_(max_delay), network_(network), random_(seed) {
  for (Rank rank = 0; rank < size; ++rank) {
    SimMemberPtr& member = world_.emplace_back(std::make_shared<SimMember>());
    member->rank = rank;
    member->size = size;
    member->world_rank = rank;
  }
}

SimMemberPtr SimMeetings::subset(const SimMemberPtr& parent, std::uint32_t number,
                                 std::span<const Rank> ranks, Rank rank) {
  const MutexLock lock(mutex_);
  const auto [it, is_new] = groups_.try_emplace({parent->group, number});
  Group& group = it->second;
  if (is_new) group = {++last_group_, {ranks.begin(), ranks.end()}, 0};
  if (!std::equal(ranks.begin(), ranks.end(), group.ranks.begin(), group.ranks.end())) {
    throw InternalError("rank " + std::to_string(parent->rank) + " makes subset " +
                        std::to_string(number) + " of other ranks than those before it");
  }
  auto member = std::make_shared<SimMember>();
  member->group = group.id;
  member->rank = rank;
  member->size = static_cast<int>(ranks.size());
  member->world_rank = parent->world_rank;
  member->parent = parent;
  if (++group.joined == ranks.size()) groups_.erase(it);
  return member;
}

std::uint64_t SimMeetings::arrive(Lane lane, const SimCallPtr& call) {
  const MutexLock lock(mutex_);
  const SimMember& member = *call->member;
  const std::uint64_t number = next_[{member.group, lane, member.rank}]++;
  if (call->withdrawn || member.is_aborted()) return number;
  encode(*call);
  Meeting& meeting = meetings_[{member.group, lane, number}];
  meeting.calls.resize(static_cast<std::size_t>(member.size));
  meeting.calls[static_cast<std::size_t>(member.rank)] = call;
  if (++meeting.arrived == member.size) compute(meeting);
  return number;
}

void SimMeetings::compute(Meeting& meeting) {
  for (const SimCallPtr& call : meeting.calls) {
    if (call->withdrawn) return;  // its rank is gone: the others wait until they are told
  }
  meeting.error = disagreement(meeting.calls);
  if (meeting.error.empty()) {
    meeting.results = results_of(meeting.calls);
    write_in_place(meeting.calls, meeting.results);
  }
  for (std::size_t rank = 0; rank < meeting.calls.size(); ++rank) {
    meeting.due.push_back(Clock::now() + random_delay(random_, max_delay_));
  }
  meeting.computed = true;
  changed_.notify_all();
  network_.ring_all();
}

bool SimMeetings::collect_locked(const Key& key, SimCall& call) {
  call.member->check_running();
  const auto it = meetings_.find(key);
  if (it == meetings_.end() || !it->second.computed) return false;
  Meeting& meeting = it->second;
  if (max_delay_ != Duration::zero() &&
      Clock::now() < meeting.due[static_cast<std::size_t>(call.member->rank)]) {
    return false;
  }
  if (!meeting.error.empty()) throw InternalError(meeting.error);
  if (!call.withdrawn) write_results(meeting.calls, meeting.results, call);
  if (++meeting.collected == call.member->size) meetings_.erase(it);
  return true;
}

bool SimMeetings::collect(Lane lane, std::uint64_t number, const SimCallPtr& call) {
  const MutexLock lock(mutex_);
  return collect_locked({call->member->group, lane, number}, *call);
}

void SimMeetings::wait_and_collect(Lane lane, std::uint64_t number, const SimCallPtr& call) {
  const MutexLock lock(mutex_);
  while (!collect_locked({call->member->group, lane, number}, *call)) {
    if (max_delay_ == Duration::zero()) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_for(mutex_, std::max<Duration>(max_delay_ / 4, std::chrono::microseconds(20)));
    }
  }
}

void SimMeetings::withdraw(const SimCallPtr& call) {
  const MutexLock lock(mutex_);
  call->withdrawn = true;
}

void SimMeetings::abort(SimMember& member) {
  {
    const MutexLock lock(mutex_);
    member.aborted = true;
    changed_.notify_all();
  }
  network_.doorbell(member.world_rank).ring();
}

}  // namespace hvd
