#include "test/support/sim/sim_transfers.h"

#include <cstring>
#include <string>

#include "core/base/status.h"
#include "ops/host/arguments.h"

namespace hvd {

SimTransfers::SimTransfers(Duration max_delay, std::uint64_t seed, SimNetwork& network)
    : max_delay_(max_delay), network_(network), random_(seed) {}

SimTransfers::Key SimTransfers::key_of(const SimTransfer& transfer) {
  const Rank mine = transfer.member->rank;
  const Rank from = transfer.sends ? mine : transfer.peer;
  const Rank to = transfer.sends ? transfer.peer : mine;
  return {transfer.member->group, from, to, transfer.tag};
}

void SimTransfers::post(const SimTransferPtr& transfer) {
  const MutexLock lock(mutex_);
  Line& line = lines_[key_of(*transfer)];
  (transfer->sends ? line.sends : line.receives).push_back(transfer);
}

void SimTransfers::make_ready(const SimTransferPtr& transfer) {
  const MutexLock lock(mutex_);
  if (transfer->ready) return;
  transfer->ready = true;
  meet(key_of(*transfer));
}

void SimTransfers::meet(const Key& key) {
  Line& line = lines_[key];
  while (!line.sends.empty() && !line.receives.empty()) {
    SimTransfer& send = *line.sends.front();
    SimTransfer& receive = *line.receives.front();
    if (!send.ready || !receive.ready) return;
    send.error = receive.error =
        host::transfer_mismatch(send.tensor, receive.tensor, receive.peer, send.peer, send.tag);
    if (send.error.ok() && send.tensor.bytes() != 0) {
      const auto* const data = static_cast<const std::byte*>(send.tensor.data);
      receive.arrived.assign(data, data + send.tensor.bytes());
    }
    for (SimTransfer* const end : {&send, &receive}) {
      end->due = Clock::now() + random_delay(random_, max_delay_);
      end->met = true;
      network_.doorbell(end->member->world_rank).ring();
    }
    line.sends.pop_front();
    line.receives.pop_front();
  }
  if (line.sends.empty() && line.receives.empty()) lines_.erase(key);
}

bool SimTransfers::collect(SimTransfer& transfer) {
  const MutexLock lock(mutex_);
  transfer.member->check_running();
  if (!transfer.met) return false;
  if (max_delay_ != Duration::zero() && Clock::now() < transfer.due) return false;
  transfer.error.throw_if_error();
  if (!transfer.arrived.empty()) {
    std::memcpy(transfer.tensor.data, transfer.arrived.data(), transfer.arrived.size());
    transfer.arrived.clear();
  }
  return true;
}

void SimTransfers::withdraw(const SimTransferPtr& transfer) {
  const MutexLock lock(mutex_);
  if (transfer->met) return;
  const Key key = key_of(*transfer);
  Line& line = lines_[key];
  std::erase(transfer->sends ? line.sends : line.receives, transfer);
  meet(key);  // those behind it may be ready
}

}  // namespace hvd
