#include "ops/self/self_transfers.h"

#include <cstring>

#include "ops/host/arguments.h"

namespace hvd {
namespace {

bool is_ready(SelfTransfer& transfer) {
  std::erase_if(transfer.ready, [](const Fence& fence) { return fence.reached(); });
  return transfer.ready.empty();
}

}  // namespace

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
    if (!is_ready(send) || !is_ready(receive)) break;
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

}  // namespace hvd
