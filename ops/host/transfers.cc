#include "ops/host/transfers.h"

#include <algorithm>

#include "core/base/bytes.h"
#include "ops/host/arguments.h"
#include "ops/host/host_memory.h"

namespace hvd::engine::host {
namespace {

enum class Says : std::uint8_t {
  kOffer,
  kAnswer,
  kTakeBack,   // of the sender: the offer, or what data it has not sent yet
  kForgotten,  // of the receiver, in place of an answer
  kMismatch    // of the sender: what the receiver expects is not what was offered
};

struct Note {
  Says says = Says::kOffer;
  std::uint64_t id = 0;
  TensorView tensor;  // without data
  TransferKey key;
};

Bytes encode_note(const Note& note) {
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

Note decode_note(const Bytes& bytes) {
  ByteReader reader(bytes);
  Note note;
  note.says = reader.get_enum<Says>(5);
  note.id = reader.get<std::uint64_t>();
  note.tensor.dtype = reader.get_enum<DType>(kDTypeCount);
  note.tensor.numel = reader.get<std::int64_t>();
  note.key.set = reader.get<std::uint64_t>();
  note.key.tag = reader.get<std::int32_t>();
  reader.expect_end();
  return note;
}

void settle(Transfer& transfer, const TensorView& sent, const TensorView& expected) {
  transfer.settled = true;
  transfer.status = transfer_mismatch(sent, expected, transfer.from, transfer.to, transfer.key.tag);
}

Status given_up(const Transfer& receive) {
  return {StatusCode::kStalled,
          str_cat("rank ", receive.from, " gave up its send to rank ", receive.to, " with tag ",
                  receive.key.tag, " (", receive.tensor.numel, " of ", receive.tensor.dtype,
                  ") while it met this receive: what was received is not usable")};
}

}  // namespace

std::shared_ptr<Transfer> Transfers::add(Transfer transfer) {
  auto added = std::make_shared<Transfer>(std::move(transfer));
  added->number = next_number_++;
  if (added->sends) {
    sends_.push_back(added);
  } else {
    receives_.push_back(added);
  }
  return added;
}

bool Transfers::withdraw(const TransferPtr& transfer, bool for_good) noexcept {
  try {
    if (!transfer->withdrawn && !for_good) {
      transfer->settled ? give_up_data(*transfer) : leave(transfer);
    } else if (!transfer->withdrawn) {
      std::erase(sends_, transfer);
      std::erase(receives_, transfer);
      std::erase_if(offered_, [&](const auto& each) { return each.second.transfer == transfer; });
      std::erase_if(matched_, [&](const Matched& each) { return each.receive == transfer; });
      std::erase_if(answered_, [&](const auto& each) { return each.second == transfer; });
    }
  } catch (const std::exception&) {
    // The link is broken, and who uses it next is told.
  }
  transfer->withdrawn = true;
  return transfer->data == nullptr || transfer->data->withdraw(for_good);
}

// As if it had never been.
void Transfers::leave(const TransferPtr& transfer) {
  std::erase(sends_, transfer);
  std::erase(receives_, transfer);
  std::erase_if(answered_, [&](const auto& each) { return each.second == transfer; });
  for (auto& [id, offered] : offered_) {
    if (offered.transfer != transfer) continue;
    offered.transfer = nullptr;
    ++taken_back_;
    restless_ = true;
    link_->say(offered.peer, encode_note({Says::kTakeBack, id, {}, transfer->key}));
  }
  std::erase_if(matched_, [&](const Matched& each) {
    if (each.receive != transfer) return false;
    offer_again(each.offer);
    return true;
  });
}

// The other end meets what is left of it.
void Transfers::give_up_data(Transfer& transfer) {
  if (transfer.data == nullptr) return;
  restless_ = true;
  if (transfer.sends) {
    link_->say(transfer.peer, encode_note({Says::kTakeBack, transfer.offer, {}, transfer.key}));
  } else {
    answered_.erase({transfer.peer, transfer.offer});
  }
}

void Transfers::wait_again(const TransferPtr& receive) {
  receive->settled = receive->given_up = receive->overtaken = false;
  receive->data = nullptr;
  const auto later = [&](const TransferPtr& each) { return each->number > receive->number; };
  receives_.insert(std::find_if(receives_.begin(), receives_.end(), later), receive);
}

void Transfers::offer_again(const Offer& offer) {
  const auto later = [&](const Offer& each) {
    return each.from == offer.from && each.id > offer.id;
  };
  offers_.insert(std::find_if(offers_.begin(), offers_.end(), later), offer);
}

void Transfers::poll() {
  link_->flush();
  send_offers();
  hear();
  match();
  send_answers();
  if (restless_) restless_ = !link_->idle();
}

bool Transfers::done(Transfer& transfer) {
  if (!transfer.settled) return false;
  if (transfer.data == nullptr) return link_->said(transfer.peer);
  if (!transfer.status.ok()) return true;
  if (!transfer.data->done() || !link_->said(transfer.peer)) return false;
  if (transfer.sends) return true;
  hear();  // whether the sender gave it up before all of it was sent
  const auto answered = answered_.extract({transfer.peer, transfer.offer});
  if (!answered) return true;  // given up just now, and cannot wait for another send
  if (transfer.data->arrived() && !transfer.given_up) return true;
  send_was_given_up(answered.mapped());
  return transfer.settled;
}

// Not known as answered any more, it waits for another send if it may.
void Transfers::send_was_given_up(const TransferPtr& receive) {
  if (!receive->overtaken) return wait_again(receive);
  receive->settled = true;
  receive->status = given_up(*receive);
}

void Transfers::send_offers() {
  for (; !sends_.empty() && all_reached(sends_.front()->ready); sends_.pop_front()) {
    const TransferPtr& transfer = sends_.front();
    const std::uint64_t id = next_id_++;
    transfer->offer = id;
    const TensorView& tensor = transfer->tensor;
    link_->say(transfer->peer, encode_note({Says::kOffer, id, tensor, transfer->key}));
    offered_[id] = {transfer, transfer->peer, {nullptr, tensor.numel, tensor.dtype, {}}};
  }
}

void Transfers::hear() {
  while (const auto note = link_->hear()) take(*note);
}

void Transfers::take(const Message& message) {
  const Note note = decode_note(message.bytes);
  switch (note.says) {
    case Says::kOffer:
      offers_.push_back({message.from, note.id, note.key, note.tensor});
      break;
    case Says::kAnswer:
      take_answer(note.id, note.tensor);
      break;
    case Says::kTakeBack:
      take_back(message.from, note.id);
      break;
    case Says::kForgotten:
      taken_back_ -= offered_.erase(note.id);
      break;
    case Says::kMismatch:
      if (const auto answered = answered_.extract({message.from, note.id})) {
        settle(*answered.mapped(), note.tensor, answered.mapped()->tensor);
      }
      break;
  }
}

void Transfers::take_answer(std::uint64_t id, const TensorView& expected) {
  const auto found = offered_.find(id);
  if (found == offered_.end()) return;  // withdrawn for good
  const Offered offered = std::move(found->second);
  offered_.erase(found);
  if (offered.transfer == nullptr) {
    --taken_back_;
    const bool agree = transfer_mismatch(offered.sent, expected, 0, 0, 0).ok();
    if (agree && expected.bytes() > 0) link_->skip(offered.peer, expected.bytes());
    restless_ = true;
    return;
  }
  Transfer& transfer = *offered.transfer;
  settle(transfer, transfer.tensor, expected);
  if (!transfer.status.ok()) {
    link_->say(offered.peer, encode_note({Says::kMismatch, id, offered.sent, transfer.key}));
    return;
  }
  transfer.data = link_->send(transfer.peer, static_cast<const std::byte*>(transfer.tensor.data),
                              transfer.tensor.bytes());
}

void Transfers::take_back(Rank from, std::uint64_t id) {
  const auto forget = [&](Rank sender, const Offer& offer) {
    if (sender != from || offer.id != id) return false;
    link_->say(from, encode_note({Says::kForgotten, id, {}, offer.key}));
    return true;
  };
  if (const auto answered = answered_.find({from, id}); answered != answered_.end()) {
    Transfer& receive = *answered->second;
    receive.given_up = true;
    // Data that is still to come would be written over what the next send brings.
    if (receive.data != nullptr && !receive.overtaken) return;
    send_was_given_up(answered_.extract(answered).mapped());
    return;
  }
  std::erase_if(offers_, [&](const Offer& each) { return forget(each.from, each); });
  std::erase_if(matched_, [&](const Matched& each) {
    if (!forget(each.offer.from, each.offer)) return false;
    send_was_given_up(each.receive);
    return true;
  });
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
    mark_overtaken(**receive);
    matched_.push_back({std::move(*receive), *offer});
    offers_.erase(offer);
    receive = receives_.erase(receive);
  }
}

// Those that may have to go back in line.
void Transfers::mark_overtaken(const Transfer& later) {
  const auto mark = [&later](Transfer& earlier) {
    if (earlier.peer == later.peer && earlier.key == later.key && earlier.number < later.number) {
      earlier.overtaken = true;
    }
  };
  for (const Matched& each : matched_) mark(*each.receive);
  for (const auto& [offer, receive] : answered_) mark(*receive);
}

// The sender sends in the order of the answers, so that is also the order of the receives.
void Transfers::send_answers() {
  std::erase_if(matched_, [this](Matched& each) {
    Transfer& transfer = *each.receive;
    if (!all_reached(transfer.ready)) return false;
    transfer.offer = each.offer.id;
    answered_[{transfer.peer, transfer.offer}] = each.receive;
    if (transfer_mismatch(each.offer.sent, transfer.tensor, 0, 0, 0).ok()) {
      transfer.settled = true;
      transfer.data = link_->receive(transfer.peer, static_cast<std::byte*>(transfer.tensor.data),
                                     transfer.tensor.bytes());
    }
    link_->say(transfer.peer,
               encode_note({Says::kAnswer, each.offer.id, transfer.tensor, transfer.key}));
    return true;
  });
}

}  // namespace hvd::engine::host
