#include "ops/host/transfers.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "ops/host/arguments.h"

namespace hvd::host {
namespace {

enum class Says : std::uint8_t { kOffer, kAnswer };

struct Note {
  Says says = Says::kOffer;
  std::uint64_t id = 0;
  TensorView tensor;  // without data
  TransferKey key;
};

Bytes encode(const Note& note) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(note.says);
  writer.put(note.id);
  writer.put(note.tensor.dtype);
  writer.put(note.tensor.numel);
  writer.put(note.key.set);
  writer.put(static_cast<std::int32_t>(note.key.tag));
  return bytes;
}

Note decode(const Bytes& bytes) {
  ByteReader reader(bytes);
  Note note;
  note.says = reader.get_enum<Says>(2);
  note.id = reader.get<std::uint64_t>();
  note.tensor.dtype = reader.get_enum<DType>(kDTypeCount);
  note.tensor.numel = reader.get<std::int64_t>();
  note.key.set = reader.get<std::uint64_t>();
  note.key.tag = reader.get<std::int32_t>();
  reader.expect_end();
  return note;
}

bool ready(Transfer& transfer) {
  std::erase_if(transfer.ready, [](const Fence& fence) { return fence.reached(); });
  return transfer.ready.empty();
}

void settle(Transfer& transfer, const TensorView& sent, const TensorView& expected) {
  transfer.settled = true;
  transfer.status = transfer_mismatch(sent, expected, transfer.from, transfer.to, transfer.key.tag);
}

}  // namespace

std::shared_ptr<Transfer> Transfers::add(Transfer transfer) {
  auto added = std::make_shared<Transfer>(std::move(transfer));
  if (added->sends) {
    sends_.push_back(added);
  } else {
    receives_.push_back(added);
  }
  return added;
}

void Transfers::remove(const TransferPtr& transfer) {
  std::erase(sends_, transfer);
  std::erase(receives_, transfer);
  std::erase_if(offered_, [&](const auto& each) { return each.second == transfer; });
  std::erase_if(matched_, [&](const Matched& each) { return each.receive == transfer; });
}

void Transfers::poll() {
  link_->flush();
  send_offers();
  while (const auto note = link_->hear()) take(*note);
  match();
  send_answers();
}

void Transfers::send_offers() {
  for (; !sends_.empty() && ready(*sends_.front()); sends_.pop_front()) {
    const TransferPtr& transfer = sends_.front();
    link_->say(transfer->peer, encode({Says::kOffer, next_id_, transfer->tensor, transfer->key}));
    offered_.emplace(next_id_++, transfer);
  }
}

void Transfers::take(const Message& message) {
  const Note note = decode(message.bytes);
  if (note.says == Says::kOffer) {
    offers_.push_back({message.from, note.id, note.key, note.tensor});
  } else {
    take_answer(note.id, note.tensor);
  }
}

void Transfers::take_answer(std::uint64_t id, const TensorView& expected) {
  const auto found = offered_.find(id);
  if (found == offered_.end()) return;  // removed meanwhile
  Transfer& transfer = *found->second;
  settle(transfer, transfer.tensor, expected);
  if (transfer.status.ok()) {
    transfer.data = link_->send(transfer.peer, static_cast<const std::byte*>(transfer.tensor.data),
                                transfer.tensor.bytes());
  }
  offered_.erase(found);
}

void Transfers::match() {
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
void Transfers::send_answers() {
  std::erase_if(matched_, [this](Matched& each) {
    Transfer& transfer = *each.receive;
    if (!ready(transfer)) return false;
    settle(transfer, each.offer.sent, transfer.tensor);
    if (transfer.status.ok()) {
      transfer.data = link_->receive(transfer.peer, static_cast<std::byte*>(transfer.tensor.data),
                                     transfer.tensor.bytes());
    }
    link_->say(transfer.peer,
               encode({Says::kAnswer, each.offer.id, transfer.tensor, transfer.key}));
    return true;
  });
}

}  // namespace hvd::host
