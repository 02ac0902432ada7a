#include "ops/self/self_backend.h"

#include <cstring>

#include "core/base/status.h"
#include "ops/host/reduce.h"

namespace hvd::engine {

SelfTransfers::TransferPtr SelfTransfers::add(host::Transfer transfer) {
  auto added = std::make_shared<host::Transfer>(std::move(transfer));
  Lines& lines = lines_[{added->key.set, added->key.tag}];
  (added->sends ? lines.sends : lines.receives).push_back(added);
  return added;
}

bool SelfTransfers::withdraw(const TransferPtr& transfer, bool /*for_good*/) noexcept {
  const auto found = lines_.find({transfer->key.set, transfer->key.tag});
  if (found == lines_.end()) return true;
  auto& [sends, receives] = found->second;
  std::erase(transfer->sends ? sends : receives, transfer);
  if (sends.empty() && receives.empty()) lines_.erase(found);
  return true;
}

bool SelfTransfers::done(const host::Transfer& transfer) {
  if (transfer.settled) return true;
  const auto found = lines_.find({transfer.key.set, transfer.key.tag});
  auto& [sends, receives] = found->second;
  while (!sends.empty() && !receives.empty()) {
    host::Transfer& send = *sends.front();
    host::Transfer& receive = *receives.front();
    if (!host::all_reached(send.ready) || !host::all_reached(receive.ready)) break;
    send.status = receive.status =
        host::transfer_mismatch(send.tensor, receive.tensor, 0, 0, send.key.tag);
    if (send.status.ok() && send.tensor.bytes() != 0) {
      std::memcpy(receive.tensor.data, send.tensor.data, send.tensor.bytes());
    }
    send.settled = receive.settled = true;
    sends.pop_front();
    receives.pop_front();
  }
  if (sends.empty() && receives.empty()) lines_.erase(found);
  return transfer.settled;
}

namespace {

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

// As elements that are not scaled.
void SelfOperation::copy(const void* from, void* to, std::size_t bytes) {
  const auto numel = static_cast<std::int64_t>(bytes);
  slices_.push_back(
      {{const_cast<void*>(from), numel, DType::kU8, {}}, {to, numel, DType::kU8, {}}});
}

bool SelfOperation::advance() {
  if (done_) return true;
  set_->throw_if_aborted();
  if (!host::all_reached(ready_)) return false;
  for (const Slice& slice : slices_) {
    reduce_one(slice.input, slice.output, slice.residual, reduction_);
  }
  done_ = true;
  return true;
}

void SelfControlPlane::send(Rank to, std::span<const std::byte>) {
  throw InternalError("a world of one rank sent a message to rank ", to);
}

}  // namespace hvd::engine
