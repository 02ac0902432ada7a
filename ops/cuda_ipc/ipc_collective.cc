#include "ops/cuda_ipc/ipc_collective.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "core/base/status.h"
#include "ops/host/arguments.h"

namespace hvd::engine {
namespace {

// An event can stay unreached when another rank's process died while this device waited for it:
// whoever waits shall not do so forever.
class IpcFence final : public CudaEvent {
 public:
  IpcFence(const CudaStream& stream, Duration limit, std::shared_ptr<const IpcAbort> abort)
      : CudaEvent(stream.device(), stream.get()), limit_(limit), abort_(std::move(abort)) {}

  void wait() override {
    const TimePoint begin = Clock::now();
    for (Duration pause = kFirstPause; !reached(); pause = std::min(2 * pause, kLongestPause)) {
      if (abort_->is_set()) throw AbortedError("the collectives of this GPU were aborted");
      if (limit_ != Duration::zero() && Clock::now() - begin > limit_) {
        throw StalledError("a CUDA device does not finish its work");
      }
      std::this_thread::sleep_for(pause);
    }
    CudaEvent::wait();  // at once; throws if the device failed
  }
  bool in_stream_order() const override { return false; }

 private:
  static constexpr Duration kFirstPause = std::chrono::microseconds(20);
  static constexpr Duration kLongestPause = std::chrono::milliseconds(1);

  const Duration limit_;
  const std::shared_ptr<const IpcAbort> abort_;
};

class IpcOperation final : public Operation {
 public:
  IpcOperation(std::shared_ptr<IpcSet> set, std::shared_ptr<IpcSet::Call> call)
      : set_(std::move(set)), call_(std::move(call)) {}

  bool advance() override { return set_->advance(*call_); }
  OperationStats stats() const override { return call_->stats; }

 private:
  std::shared_ptr<IpcSet> set_;
  std::shared_ptr<IpcSet::Call> call_;
};

template <typename Slices>
std::size_t input_bytes(const Slices& slices) {
  std::size_t bytes = 0;
  for (const auto& slice : slices) bytes += slice.input.bytes();
  return bytes;
}

// What kernels do; the rest is the host's.
bool is_elementwise(const Reduction& reduction) {
  return reduction.wire == WireFormat::kNone && reduction.op != ReduceOp::kAdasum;
}

}  // namespace

IpcCollective::IpcCollective(std::unique_ptr<StagedCollective> staged,
                             std::unique_ptr<Collective> handshakes, Rank rank, int size,
                             const Options& options)
    : IpcCollective(std::move(staged), std::move(handshakes), {.rank = rank, .size = size}, options,
                    nullptr, nullptr) {}

IpcCollective::IpcCollective(std::unique_ptr<StagedCollective> staged,
                             std::unique_ptr<Collective> handshakes, const IpcPlace& place,
                             const Options& options, std::shared_ptr<IpcDevice> device,
                             std::shared_ptr<const IpcAbort> parent)
    : place_{place.rank, place.size, staged->queue()->stream().device(),
             staged->queue()->stream().get()},
      options_(options),
      device_(device != nullptr ? std::move(device) : std::make_shared<IpcDevice>(staged->queue())),
      staged_(std::move(staged)),
      abort_(std::make_shared<IpcAbort>(std::move(parent))),
      set_(std::make_shared<IpcSet>(
          place_, options.limits, options.limit, std::move(handshakes), abort_,
          [device = device_.get()](const std::string& why) { device->warn(why); })) {}

IpcCollective::~IpcCollective() {
  device_->end(set_->end());
}

std::unique_ptr<Operation> IpcCollective::start(
    std::unique_ptr<IpcWork> work, std::size_t bytes,
    std::function<std::unique_ptr<Operation>()> staged) {
  auto call = std::make_shared<IpcSet::Call>();
  call->work = std::move(work);
  call->staged = std::move(staged);
  call->ready = staged_->ready();
  call->stats.packed_bytes = bytes;
  set_->add(call);
  return std::make_unique<IpcOperation>(set_, std::move(call));
}

std::unique_ptr<Operation> IpcCollective::all_reduce(std::span<const Slice> slices,
                                                     const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  std::unique_ptr<IpcWork> work;
  if (is_elementwise(reduction)) {
    work = ipc_all_reduce(place_, options_.limits, slices, reduction);
  }
  return start(std::move(work), input_bytes(slices),
               [this, mine = std::vector(slices.begin(), slices.end()), reduction] {
                 return staged_->all_reduce(mine, reduction);
               });
}

std::unique_ptr<Operation> IpcCollective::reduce_scatter(std::span<const ScatterSlice> slices,
                                                         const Reduction& reduction) {
  host::check_reduce_scatter(slices, reduction, place_.rank, place_.size);
  std::unique_ptr<IpcWork> work;
  if (is_elementwise(reduction)) {
    work = ipc_reduce_scatter(place_, options_.limits, slices, reduction);
  }
  return start(std::move(work), input_bytes(slices),
               [this, mine = std::vector(slices.begin(), slices.end()), reduction] {
                 return staged_->reduce_scatter(mine, reduction);
               });
}

std::unique_ptr<Operation> IpcCollective::broadcast(std::span<const Slice> slices, Rank root) {
  host::check_rank("broadcast from root", root, place_.size);
  return start(ipc_broadcast(place_, options_.limits, slices, root),
               root == place_.rank ? input_bytes(slices) : 0,
               [this, mine = std::vector(slices.begin(), slices.end()), root] {
                 return staged_->broadcast(mine, root);
               });
}

std::unique_ptr<Operation> IpcCollective::all_gather(std::span<const GatherSlice> slices) {
  host::check_all_gather(slices, place_.size);
  std::size_t bytes = 0;
  for (const GatherSlice& slice : slices) {
    bytes += slice.bytes_of[static_cast<std::size_t>(place_.rank)];
  }
  return start(ipc_all_gather(place_, options_.limits, slices), bytes,
               [this, mine = std::vector(slices.begin(), slices.end())] {
                 return staged_->all_gather(mine);
               });
}

std::unique_ptr<Operation> IpcCollective::all_to_all(std::span<const ExchangeSlice> slices) {
  host::check_all_to_all(slices, place_.rank, place_.size);
  std::size_t bytes = 0;
  for (const ExchangeSlice& slice : slices) {
    for (const std::size_t to : slice.bytes_to) bytes += to;
  }
  return start(ipc_all_to_all(place_, options_.limits, slices), bytes,
               [this, mine = std::vector(slices.begin(), slices.end())] {
                 return staged_->all_to_all(mine);
               });
}

std::unique_ptr<Operation> IpcCollective::exchange(std::span<const std::int64_t> mine,
                                                   std::span<std::int64_t> all) {
  host::check_exchange(mine.size(), all.size(), place_.size);
  return start(nullptr, 0, [this, mine, all] { return staged_->exchange(mine, all); });
}

std::unique_ptr<Collective> IpcCollective::subset(std::uint32_t number,
                                                  std::span<const Rank> ranks) {
  const Rank rank = host::check_subset(ranks, place_.rank, place_.size);
  auto staged = staged_->staged_subset(number, ranks);
  auto handshakes = set_->subset_of_handshakes(number, ranks);
  return std::unique_ptr<Collective>(new IpcCollective(
      std::move(staged), std::move(handshakes),
      {.rank = rank, .size = static_cast<int>(ranks.size())}, options_, device_, abort_));
}

std::optional<Duration> IpcCollective::poll_interval() const {
  return earlier(set_->poll_interval(), staged_->poll_interval());
}

std::optional<Duration> IpcCollective::prepare_sleep() {
  return earlier(set_->poll_interval(), staged_->prepare_sleep());
}

void IpcCollective::progress(TimePoint now) {
  staged_->progress(now);
  set_->progress(now);
  device_->advance();
}

Fence IpcCollective::fence() {
  return Fence(std::make_shared<IpcFence>(device_->stream(), options_.limit, abort_));
}

void IpcCollective::abort() noexcept {
  abort_->set();
  set_->abort();
  staged_->abort();
}

}  // namespace hvd::engine
