#include "ops/mpi/transfers.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "ops/host/arguments.h"

namespace hvd {
namespace {

enum class Says : std::uint8_t { kOffer, kAnswer };

bool ready(Transfer& transfer) {
  std::erase_if(transfer.ready, [](const Fence& fence) { return fence.reached(); });
  return transfer.ready.empty();
}

void settle(Transfer& transfer, const TensorView& sent, const TensorView& expected) {
  transfer.settled = true;
  transfer.status =
      host::transfer_mismatch(sent, expected, transfer.from, transfer.to, transfer.key.tag);
}

}  // namespace

MpiTransfers::MpiTransfers(std::shared_ptr<MpiCommunicator> communicator)
    : communicator_(communicator),
      outbox_(communicator, communicator->data()),
      inbox_(communicator, communicator->data(), MPI_ANY_SOURCE,
             static_cast<int>(MpiTag::kTransfer)) {}

std::shared_ptr<Transfer> MpiTransfers::add(Transfer transfer) {
  auto added = std::make_shared<Transfer>(std::move(transfer));
  if (added->sends) {
    sends_.push_back(added);
  } else {
    receives_.push_back(added);
  }
  return added;
}

void MpiTransfers::remove(const TransferPtr& transfer) {
  std::erase(sends_, transfer);
  std::erase(receives_, transfer);
  std::erase_if(offered_, [&](const auto& each) { return each.second == transfer; });
  std::erase_if(matched_, [&](const Matched& each) { return each.receive == transfer; });
}

void MpiTransfers::poll() {
  outbox_.flush();
  send_offers();
  while (const auto arrival = inbox_.poll()) {
    communicator_->note_progress();
    take(*arrival);
  }
  match();
  send_answers();
}

void MpiTransfers::send_offers() {
  for (; !sends_.empty() && ready(*sends_.front()); sends_.pop_front()) {
    const TransferPtr& transfer = sends_.front();
    Bytes bytes;
    ByteWriter writer(bytes);
    writer.put(Says::kOffer);
    writer.put(next_id_);
    writer.put(transfer->tensor.dtype);
    writer.put(transfer->tensor.numel);
    writer.put(transfer->key.set);
    writer.put(static_cast<std::int32_t>(transfer->key.tag));
    outbox_.send(transfer->peer, MpiTag::kTransfer, std::move(bytes));
    offered_.emplace(next_id_++, transfer);
  }
}

void MpiTransfers::take(const MpiInbox::Arrival& arrival) {
  ByteReader reader(arrival.message.bytes);
  const auto says = reader.get_enum<Says>(2);
  const auto id = reader.get<std::uint64_t>();
  TensorView tensor;
  tensor.dtype = reader.get_enum<DType>(kDTypeCount);
  tensor.numel = reader.get<std::int64_t>();
  if (says == Says::kOffer) {
    TransferKey key;
    key.set = reader.get<std::uint64_t>();
    key.tag = reader.get<std::int32_t>();
    offers_.push_back({arrival.message.from, id, key, tensor});
  } else {
    take_answer(id, tensor);
  }
  reader.expect_end();
}

void MpiTransfers::take_answer(std::uint64_t id, const TensorView& expected) {
  const auto found = offered_.find(id);
  if (found == offered_.end()) return;  // removed meanwhile
  Transfer& transfer = *found->second;
  settle(transfer, transfer.tensor, expected);
  if (transfer.status.ok()) {
    transfer.pending.send(transfer.peer, static_cast<int>(MpiTag::kTransferData),
                          static_cast<const std::byte*>(transfer.tensor.data),
                          transfer.tensor.bytes());
  }
  offered_.erase(found);
}

void MpiTransfers::match() {
  for (auto receive = receives_.begin(); receive != receives_.end();) {
    const auto offer = std::find_if(offers_.begin(), offers_.end(), [&](const Offer& each) {
      return each.from == (*receive)->peer && each.key == (*receive)->key;
    });
    if (offer == offers_.end()) {
      ++receive;
      continue;
    }
    matched_.push_back({std::move(*receive), *offer});
    offers_.erase(offer);
    receive = receives_.erase(receive);
  }
}

// The sender sends in the order of the answers, so that is also the order of the receives.
void MpiTransfers::send_answers() {
  std::erase_if(matched_, [this](Matched& each) {
    Transfer& transfer = *each.receive;
    if (!ready(transfer)) return false;
    settle(transfer, each.offer.sent, transfer.tensor);
    if (transfer.status.ok()) {
      transfer.pending.receive(transfer.peer, static_cast<int>(MpiTag::kTransferData),
                               static_cast<std::byte*>(transfer.tensor.data),
                               transfer.tensor.bytes());
    }
    Bytes bytes;
    ByteWriter writer(bytes);
    writer.put(Says::kAnswer);
    writer.put(each.offer.id);
    writer.put(transfer.tensor.dtype);
    writer.put(transfer.tensor.numel);
    outbox_.send(transfer.peer, MpiTag::kTransfer, std::move(bytes));
    return true;
  });
}

}  // namespace hvd
