#include "ops/self/self_backend.h"

#include <atomic>
#include <cstring>

#include "core/base/status.h"
#include "ops/host/host_memory.h"
#include "ops/host/reduce.h"

namespace hvd {
void SelfTransfers::post(const SelfTransferPtr& transfer) {
  Line& line = lines_[transfer->tag];
  (transfer->sends ? line.sends : line.receives).push_back(transfer);
}

bool SelfTransfers::serve(SelfTransfer& transfer) {
  const auto it = lines_.find(transfer.tag);
  while (!transfer.over && !it->second.sends.empty() && !it->second.receives.empty()) {
    auto& [sends, receives] = it->second;
    SelfTransfer& send = *sends.front();
    SelfTransfer& receive = *receives.front();
    if (!host::all_reached(send.ready) || !host::all_reached(receive.ready)) break;
    send.error = receive.error =
        host::transfer_mismatch(send.tensor, receive.tensor, 0, 0, transfer.tag);
    if (send.error.ok() && send.tensor.bytes() != 0) {
      std::memcpy(receive.tensor.data, send.tensor.data, send.tensor.bytes());
    }
    send.over = receive.over = true;
    sends.pop_front();
    receives.pop_front();
  }
  if (transfer.over) transfer.error.throw_if_error();
  return transfer.over;
}

void SelfTransfers::withdraw(const SelfTransferPtr& transfer) {
  const auto it = lines_.find(transfer->tag);
  if (it == lines_.end()) return;
  auto& [sends, receives] = it->second;
  std::erase(transfer->sends ? sends : receives, transfer);
  if (sends.empty() && receives.empty()) lines_.erase(it);
}

// What a SelfCollective shares with its operations and subsets, which may outlive it.
struct SelfState {
  std::shared_ptr<const SelfState> parent;
  std::atomic<bool> aborted = false;
  SelfTransfers transfers;

  void check_running() const {
    if (aborted) throw AbortedError("the collectives of this world of one rank were aborted");
    if (parent != nullptr) parent->check_running();
  }
};

namespace {

class SelfOperation final : public Operation {
 public:
  SelfOperation(std::function<void()> work, std::vector<Fence> ready,
                std::shared_ptr<const SelfState> state)
      : work_(std::move(work)), ready_(std::move(ready)), state_(std::move(state)) {}

  bool advance() override {
    if (work_ == nullptr) return true;
    state_->check_running();
    if (!host::all_reached(ready_)) return false;
    work_();
    work_ = nullptr;
    return true;
  }

 private:
  std::function<void()> work_;  // empty once done
  std::vector<Fence> ready_;
  std::shared_ptr<const SelfState> state_;
};

class SelfTransferOperation final : public Operation {
 public:
  SelfTransferOperation(SelfTransferPtr transfer, std::shared_ptr<SelfState> state)
      : transfer_(std::move(transfer)), state_(std::move(state)) {
    state_->transfers.post(transfer_);
  }
  ~SelfTransferOperation() override { state_->transfers.withdraw(transfer_); }

  bool advance() override {
    if (!transfer_->over) state_->check_running();
    return state_->transfers.serve(*transfer_);
  }

 private:
  SelfTransferPtr transfer_;
  std::shared_ptr<SelfState> state_;
};

void copy(const void* from, void* to, std::size_t bytes) {
  if (from != to && bytes != 0) std::memcpy(to, from, bytes);
}

template <typename T>
void take_residual(float* residual, void* data, std::int64_t numel) {
  for (std::int64_t i = 0; i < numel; ++i) {
    static_cast<T*>(data)[i] += static_cast<T>(residual[i]);
    residual[i] = 0;
  }
}

// Of one input; every op, Adasum too, gives the input itself, scaled.
void reduce_one(const TensorView& input, const TensorView& output, float* residual,
                const Reduction& reduction) {
  const auto scale = [&](const void* from, double prescale, double postscale) {
    host::reduce(input.dtype, ReduceOp::kSum, {&from, 1}, output.data, input.numel, prescale,
                 postscale);
  };
  if (residual == nullptr || reduction.wire == WireFormat::kNone) {
    return scale(input.data, reduction.prescale, reduction.postscale);
  }
  scale(input.data, reduction.prescale, 1.0);
  if (input.dtype == DType::kF64) {
    take_residual<double>(residual, output.data, input.numel);
  } else {
    take_residual<float>(residual, output.data, input.numel);
  }
  scale(output.data, 1.0, reduction.postscale);
}

}  // namespace

SelfCollective::SelfCollective() : SelfCollective(nullptr) {}

SelfCollective::SelfCollective(std::shared_ptr<const SelfState> parent)
    : HostCollective(0, 1), state_(std::make_shared<SelfState>()) {
  state_->parent = std::move(parent);
}

std::unique_ptr<Operation> SelfCollective::start(std::function<void()> work) {
  return std::make_unique<SelfOperation>(std::move(work), ready_, state_);
}

std::unique_ptr<Operation> SelfCollective::all_reduce(std::span<const Slice> slices,
                                                      const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  return start([mine = std::vector(slices.begin(), slices.end()), reduction] {
    for (const Slice& slice : mine) {
      reduce_one(slice.input, slice.output, slice.residual, reduction);
    }
  });
}

std::unique_ptr<Operation> SelfCollective::reduce_scatter(std::span<const ScatterSlice> slices,
                                                          const Reduction& reduction) {
  host::check_reduce_scatter(slices, reduction, 0, 1);
  return start([mine = std::vector(slices.begin(), slices.end()), reduction] {
    for (const ScatterSlice& slice : mine) {
      reduce_one(slice.input, slice.output, nullptr, reduction);
    }
  });
}

std::unique_ptr<Operation> SelfCollective::broadcast(std::span<const Slice> slices, Rank root) {
  host::check_rank("broadcast from root", root, 1);
  return start([mine = std::vector(slices.begin(), slices.end())] {
    for (const Slice& slice : mine) copy(slice.input.data, slice.output.data, slice.input.bytes());
  });
}

std::unique_ptr<Operation> SelfCollective::all_gather(std::span<const GatherSlice> slices) {
  host::check_all_gather(slices, 1);
  return start([mine = std::vector(slices.begin(), slices.end())] {
    for (const GatherSlice& slice : mine) copy(slice.input, slice.output, slice.bytes_of[0]);
  });
}

std::unique_ptr<Operation> SelfCollective::all_to_all(std::span<const ExchangeSlice> slices) {
  host::check_all_to_all(slices, 0, 1);
  return start([mine = std::vector(slices.begin(), slices.end())] {
    for (const ExchangeSlice& slice : mine) copy(slice.input, slice.output, slice.bytes_to[0]);
  });
}

std::unique_ptr<Operation> SelfCollective::exchange(std::span<const std::int64_t> mine,
                                                    std::span<std::int64_t> all) {
  return start([mine, all] { copy(mine.data(), all.data(), mine.size_bytes()); });
}

std::unique_ptr<Operation> SelfCollective::transfer(bool sends, const TensorView& tensor, Rank,
                                                    int tag) {
  auto end = std::make_shared<SelfTransfer>(SelfTransfer{tensor, tag, sends, ready_});
  return std::make_unique<SelfTransferOperation>(std::move(end), state_);
}

std::unique_ptr<Collective> SelfCollective::subset(std::uint32_t, std::span<const Rank> ranks) {
  host::check_subset(ranks, 0, 1);
  return std::unique_ptr<Collective>(new SelfCollective(state_));
}

void SelfCollective::abort() noexcept {
  state_->aborted = true;
}

void SelfControlPlane::send(Rank to, std::span<const std::byte>) {
  throw InternalError("a world of one rank sent a message to rank " + std::to_string(to));
}

}  // namespace hvd
