#include "ops/sim/sim_meetings.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "ops/host/reduce.h"

namespace hvd {
namespace {

using Result = std::vector<std::byte>;
using Calls = std::vector<SimCallPtr>;

void append(Result& result, const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  result.insert(result.end(), first, first + bytes);
}

void copy_out(const Result& result, void* output) {
  if (!result.empty()) std::memcpy(output, result.data(), result.size());
}

// Why two ranks' calls do not belong together; empty when they do.
std::string difference(const SimCall& a, const SimCall& b) {
  if (a.kind != b.kind) return "kinds";
  if (a.op != b.op || a.scale != b.scale) return "ops or scales";
  if (a.root != b.root) return "roots";
  if (a.slices.size() != b.slices.size() || a.gathers.size() != b.gathers.size()) {
    return "numbers of slices";
  }
  for (std::size_t i = 0; i < a.slices.size(); ++i) {
    if (a.slices[i].input.dtype != b.slices[i].input.dtype) return "dtypes";
    if (a.slices[i].input.numel != b.slices[i].input.numel) return "numbers of elements";
  }
  for (std::size_t i = 0; i < a.gathers.size(); ++i) {
    if (a.gathers[i].bytes_of != b.gathers[i].bytes_of) return "sizes by rank";
  }
  if (a.mine.size() != b.mine.size()) return "numbers of integers";
  return {};
}

Result reduced(const Calls& calls, std::size_t slice) {
  std::vector<const void*> inputs;
  for (const SimCallPtr& call : calls) inputs.push_back(call->slices[slice].input.data);
  const SimCall& any = *calls.front();
  const TensorView& view = any.slices[slice].input;
  Result result(view.bytes());
  host::reduce(view.dtype, any.op, inputs, result.data(), view.numel, any.scale);
  return result;
}

Result broadcast(const Calls& calls, std::size_t slice) {
  const SimCall& root = *calls[static_cast<std::size_t>(calls.front()->root)];
  Result result;
  append(result, root.slices[slice].input.data, root.slices[slice].input.bytes());
  return result;
}

Result gathered(const Calls& calls, std::size_t slice) {
  Result result;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    const GatherSlice& gather = calls[rank]->gathers[slice];
    append(result, gather.input, gather.bytes_of[rank]);
  }
  return result;
}

Result exchanged(const Calls& calls) {
  Result result;
  for (const SimCallPtr& call : calls) append(result, call->mine.data(), call->mine.size_bytes());
  return result;
}

std::vector<Result> results_of(const Calls& calls) {
  const SimCall& any = *calls.front();
  std::vector<Result> results;
  if (any.kind == SimKind::kExchange) results.push_back(exchanged(calls));
  for (std::size_t i = 0; i < any.gathers.size(); ++i) results.push_back(gathered(calls, i));
  for (std::size_t i = 0; i < any.slices.size(); ++i) {
    results.push_back(any.kind == SimKind::kReduce ? reduced(calls, i) : broadcast(calls, i));
  }
  return results;
}

void write_results(const std::vector<Result>& results, SimCall& call) {
  if (call.kind == SimKind::kExchange) copy_out(results[0], call.all.data());
  for (std::size_t i = 0; i < call.gathers.size(); ++i)
    copy_out(results[i], call.gathers[i].output);
  for (std::size_t i = 0; i < call.slices.size(); ++i) {
    copy_out(results[i], call.slices[i].output.data);
  }
}

}  // namespace

SimMeetings::SimMeetings(int size, Duration max_delay, std::uint64_t seed, SimNetwork& network)
    : size_(static_cast<std::size_t>(size)),
      max_delay_(max_delay),
      network_(network),
      random_(seed),
      aborted_(size_) {}

std::uint64_t SimMeetings::arrive(Lane lane, const SimCallPtr& call) {
  const MutexLock lock(mutex_);
  const std::uint64_t number = next_[{lane, call->rank}]++;
  if (call->withdrawn || aborted_[static_cast<std::size_t>(call->rank)]) return number;
  Meeting& meeting = meetings_[{lane, number}];
  meeting.calls.resize(size_);
  meeting.calls[static_cast<std::size_t>(call->rank)] = call;
  if (++meeting.arrived == static_cast<int>(size_)) compute(meeting);
  return number;
}

void SimMeetings::compute(Meeting& meeting) {
  for (const SimCallPtr& call : meeting.calls) {
    if (call->withdrawn) return;  // its rank is gone: the others wait until they are told
  }
  for (std::size_t rank = 1; rank < size_ && meeting.error.empty(); ++rank) {
    const std::string what = difference(*meeting.calls[0], *meeting.calls[rank]);
    if (what.empty()) continue;
    meeting.error = "ranks 0 and " + std::to_string(rank) +
                    " started operations that do not belong together: different " + what;
  }
  if (meeting.error.empty()) meeting.results = results_of(meeting.calls);
  for (std::size_t rank = 0; rank < size_; ++rank) {
    meeting.due.push_back(Clock::now() + random_delay(random_, max_delay_));
  }
  meeting.computed = true;
  changed_.notify_all();
  network_.ring_all();
}

void SimMeetings::check_aborted(Rank rank) {
  if (aborted_[static_cast<std::size_t>(rank)]) {
    throw AbortedError("the collectives of rank " + std::to_string(rank) + " were aborted");
  }
}

bool SimMeetings::collect_locked(const Key& key, SimCall& call) {
  check_aborted(call.rank);
  const auto it = meetings_.find(key);
  if (it == meetings_.end() || !it->second.computed) return false;
  Meeting& meeting = it->second;
  if (max_delay_ != Duration::zero() &&
      Clock::now() < meeting.due[static_cast<std::size_t>(call.rank)]) {
    return false;
  }
  if (!meeting.error.empty()) throw InternalError(meeting.error);
  if (!call.withdrawn) write_results(meeting.results, call);
  if (++meeting.collected == static_cast<int>(size_)) meetings_.erase(it);
  return true;
}

bool SimMeetings::collect(Lane lane, std::uint64_t number, const SimCallPtr& call) {
  const MutexLock lock(mutex_);
  return collect_locked({lane, number}, *call);
}

void SimMeetings::wait_and_collect(Lane lane, std::uint64_t number, const SimCallPtr& call) {
  const MutexLock lock(mutex_);
  while (!collect_locked({lane, number}, *call)) {
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

void SimMeetings::abort(Rank rank) {
  {
    const MutexLock lock(mutex_);
    aborted_[static_cast<std::size_t>(rank)] = 1;
    changed_.notify_all();
  }
  network_.doorbell(rank).ring();
}

void SimMeetings::check_running(Rank rank) {
  const MutexLock lock(mutex_);
  check_aborted(rank);
}

bool SimMeetings::aborted(Rank rank) {
  const MutexLock lock(mutex_);
  return aborted_[static_cast<std::size_t>(rank)] != 0;
}

}  // namespace hvd
