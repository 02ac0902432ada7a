#include "ops/cuda/staging_queue.h"

#include <utility>

#include "ops/cuda/check.h"

namespace hvd::engine {
namespace {

constexpr Duration kPollInterval = std::chrono::microseconds(50);

}  // namespace

void StagingQueue::copy(const std::vector<Copy>& copies, cudaMemcpyKind kind) {
  for (const Copy& each : copies) {
    if (each.bytes == 0) continue;
    check_cuda(cudaMemcpyAsync(each.to, each.from, each.bytes, kind, stream_->get()),
               "cudaMemcpyAsync");
  }
}

void StagingQueue::add(std::shared_ptr<Call> call) {
  waiting_.push_back(std::move(call));
}

void StagingQueue::start_what_arrived() {
  while (!waiting_.empty()) {
    Call& call = *waiting_.front();
    std::erase_if(call.ready, [](const Fence& fence) { return fence.reached(); });
    if (!call.ready.empty()) return;
    if (!std::exchange(call.copying, true)) {
      copy(call.in, cudaMemcpyDeviceToHost);
      if (!call.in.empty()) call.arrived = stream_->fence();
    }
    if (!call.arrived.reached()) return;
    call.arrived.wait();  // throws if the device failed
    call.running = call.start();
    waiting_.pop_front();
  }
}

bool StagingQueue::advance(Call& call) {
  start_what_arrived();
  if (call.over) return true;
  if (call.running == nullptr || !call.running->advance()) return false;
  call.stats = call.running->stats();
  call.running.reset();  // here: what is left of the call ends on the completion thread
  copy(call.out, cudaMemcpyHostToDevice);
  call.over = true;
  return true;
}

std::optional<Duration> StagingQueue::poll_interval() const {
  if (waiting_.empty()) return std::nullopt;
  return kPollInterval;
}

}  // namespace hvd::engine
