#include "test/gpu/logic/host_streams.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "test/gpu/logic/host_cuda.h"
#include "test/gpu/logic/stream_log.h"

namespace hvd::engine::test {
namespace {

bool advance(CUstream_st& stream) {
  if (stream.work.empty() || !stream.work.front()()) return false;
  stream.work.pop_front();
  return true;
}

// What one held back it lets go for good.
int this_stall() {
  return host_cuda().stalls_ended + 1;
}

bool has_passed(const HostEvent& event, std::uint64_t record) {
  const bool stalled = host_cuda().stalled || host_cuda().results_stalled;
  return event.completed >= record && !(stalled && event.held == this_stall());
}

bool at_once() {
  return !host_cuda().lazy && !host_cuda().by_hand;
}

constexpr unsigned kMostAtATime = 16;  // that a lazy device does before it rests
constexpr std::chrono::microseconds kRest{50};

}  // namespace

bool is_of_a_device(cudaStream_t stream) {
  return stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
}

cudaStream_t HostStreams::make(int device) {
  const std::lock_guard lock(mutex_);
  if (host_cuda().runs_by_itself && !std::exchange(runs_by_itself_, true)) {
    std::thread(&HostStreams::be_the_device, this).detach();
  }
  streams_.push_front(std::make_unique<CUstream_st>());
  streams_.front()->device = device;
  return streams_.front().get();
}

void HostStreams::destroy(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  stream->destroyed = true;
  run_all();
}

void HostStreams::push(cudaStream_t stream, std::function<bool()> work) {
  const std::lock_guard lock(mutex_);
  add(stream, std::move(work));
}

void HostStreams::add(cudaStream_t stream, std::function<bool()> work) {
  if (!is_of_a_device(stream)) {
    work();
    return;
  }
  stream->work.push_back(std::move(work));
  if (at_once()) run_all();
  if (runs_by_itself_) added_.notify_one();
}

void HostStreams::copies(cudaStream_t stream, bool to_device) {
  const std::lock_guard lock(mutex_);
  if (is_of_a_device(stream)) stream->wrote = to_device;
}

void HostStreams::record(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto state = event->state;
  const bool held = host_cuda().stalled ||
                    (host_cuda().results_stalled && is_of_a_device(stream) && stream->wrote);
  state->held = held ? this_stall() : 0;
  state->number = ++host_cuda().points;
  log_stream("record", stream, state->number);
  add(stream, [state, number = ++state->recorded] {
    state->completed = std::max(state->completed.load(), number);
    return true;
  });
}

void HostStreams::wait(cudaStream_t stream, cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  log_stream("wait", stream, event->state->number);
  // Which one another process's stream waits for if the event is recorded again is nowhere said.
  const bool newest = event->is_imported && host_cuda().lazy && random_() % 2 == 0;
  add(stream, [state = event->state, number = event->state->recorded.load(), newest] {
    return has_passed(*state, newest ? state->recorded.load() : number);
  });
}

bool HostStreams::reached(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  if (at_once()) run_all();
  for (auto count = random_() % 4; host_cuda().lazy && count > 0; --count) run_one();
  return has_passed(*event->state, event->state->recorded);
}

void HostStreams::run() {
  const std::lock_guard lock(mutex_);
  run_all();
}

bool HostStreams::idle(int device) {
  const std::lock_guard lock(mutex_);
  run_all();
  return std::all_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
    return stream->device != device || stream->work.empty();
  });
}

void HostStreams::seed(unsigned seed) {
  const std::lock_guard lock(mutex_);
  random_.seed(seed);
}

bool HostStreams::has_work() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& stream) { return !stream->work.empty(); });
}

// What waits for another process is tried again and again.
void HostStreams::be_the_device() {
  std::unique_lock lock(mutex_);
  while (true) {
    added_.wait(lock, [this] { return has_work(); });
    if (at_once()) run_all();
    for (auto count = random_() % kMostAtATime; host_cuda().lazy && count > 0; --count) run_one();
    if (has_work()) added_.wait_for(lock, kRest);
  }
}

void HostStreams::drop() {
  const std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) stream->work.clear();
  forget();
}

void HostStreams::forget() {
  std::erase_if(streams_, [](const auto& s) { return s->destroyed && s->work.empty(); });
}

void HostStreams::run_all() {
  for (bool moved = !host_cuda().hangs; moved;) {
    moved = false;
    for (const auto& stream : streams_) {
      while (advance(*stream)) moved = true;
    }
  }
  forget();
}

// A piece of work of a stream drawn from those that can go on.
void HostStreams::run_one() {
  if (host_cuda().hangs) return;
  std::vector<CUstream_st*> busy;
  for (const auto& stream : streams_) {
    if (!stream->work.empty()) busy.push_back(stream.get());
  }
  std::shuffle(busy.begin(), busy.end(), random_);
  for (CUstream_st* const stream : busy) {
    if (advance(*stream)) break;
  }
  forget();
}

}  // namespace hvd::engine::test
