// What the log tells this rank to do.

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/config/log.h"
#include "core/negotiate/messages/request.h"
#include "core/runtime/coordinator.h"

namespace hvd {

bool Coordinator::apply_effects() {
  bool moved = false;
  while (auto effect = protocol_.next_effect()) {
    std::visit([this](auto& known) { apply(known); }, *effect);
    moved = true;
  }
  return moved;
}

void Coordinator::apply(RunBatch& effect) {
  executor_.run(std::move(effect));
}

void Coordinator::apply(const FailTicket& effect) {
  fail(effect.ticket, effect.status);
}

void Coordinator::apply(const SetAdded& effect) {
  auto set = std::make_shared<SetMembers>(SetMembers{effect.set, effect.ranks});
  try {
    if (set->has(topology_.rank)) executor_.add_set(set);
  } catch (...) {
    // Whoever asked tells the other ranks, and they remove the set: see World::add_process_set. For
    // a rank that has joined nobody does.
    set->failure = current_status();
    if (effect.ticket == 0) return fail(set->failure);
  }
  sets_.add(std::move(set));
  finish(effect.ticket, effect.set);
}

void Coordinator::apply(const SetRemoved& effect) {
  sets_.remove(effect.set);
  executor_.remove_set(effect.set);
  finish(effect.ticket, effect.set);
}

void Coordinator::apply(const AllJoined& effect) {
  joined_.push_back(effect);
  finish_joins();  // whoever joined last may leave now
}

// A join ends after what this rank submitted before it, whose handles may be dropped. Nothing can
// follow in that set meanwhile: this rank has not left its join.
bool Coordinator::finish_joins() {
  return std::erase_if(joined_, [this](const AllJoined& effect) {
           if (executor_.busy(table_.find(effect.ticket)->submission.request.set)) return false;
           finish(effect.ticket, effect.last);
           return true;
         }) > 0;
}

void Coordinator::apply(const ProbeRanks&) {
  if (!notifier_.look()) protocol_.status_reported({});
}

void Coordinator::apply(const Report& effect) {
  warn(effect.text);
}

// Who waits for what a rank that left will not bring learns where its program is, if that can be
// found out soon.
void Coordinator::apply(const Stopped& effect) {
  if (phase_ != Phase::kRunning) return;
  stop_reason_ = effect.why;
  const bool waits = effect.orderly && !left_ && !effect.waits_for.empty();
  if (effect.orderly && !left_) departure_ = effect;
  if (waits && notifier_.look()) where_deadline_ = Clock::now() + kLocationLimit;
  if (effect.orderly && (executor_.busy() || transfers_.busy() || asks_where())) {
    phase_ = Phase::kDraining;
    phase_deadline_ = TimePoint::max();
    drain_.emplace(Clock::now(), kDrainLimit, protocol_.settings().stall_limit);
    transfers_deadline_ = Clock::now() + kTransferDrainLimit;
  } else {
    finish_departure({});
    stop(stop_reason_, effect.orderly);
  }
}

// What another rank's leaving means to this one.
void Coordinator::finish_departure(const std::string& where) {
  where_deadline_ = TimePoint::max();
  if (!departure_) return;
  std::string text = departure_->why.message();
  if (!departure_->waits_for.empty()) {
    text += " while rank " + std::to_string(topology_.rank) + " waits for " +
            readable_name(departure_->waits_for) + ", submission " +
            std::to_string(departure_->waits_number);
    if (!where.empty()) text += ", at " + where;
  }
  // Who waits for a message alone learns of that.
  if (!departure_->waits_for.empty() || !transfers_.busy()) {
    text += ". Different numbers of batches? See hvd.join().";
  }
  stop_reason_ = {departure_->why.code(), std::move(text)};
  departure_.reset();
}

// True when the phase changed.
bool Coordinator::check_drain(TimePoint now) {
  if (now >= transfers_deadline_) close_transfers(stop_reason_);
  if (const auto where = asks_where() ? notifier_.next_answer() : std::nullopt) {
    finish_departure(*where);
  } else if (now >= where_deadline_ || !asks_where()) {
    finish_departure({});
  }
  if (!executor_.busy() && !transfers_.busy() && !asks_where()) {
    stop(stop_reason_, true);
    return true;
  }
  if (now < drain_->next_deadline()) return false;
  const std::vector<UnfinishedBatch> left = executor_.unfinished();
  if (const auto warning = drain_->warning(now, left)) warn(*warning);
  if (!drain_->late(now)) return false;
  const Status why = drain_->give_up(stop_reason_, now, left);
  const bool orderly = !executor_.busy();
  if (!orderly) log(LogLevel::kError, why.message());
  stop(why, orderly);
  return true;
}

// Rank 0 watches batches as long as they run on the first rank of their process set, and has nobody
// to ask in a world of one.
void Coordinator::watch_devices(TimePoint now) {
  device_watch_.set_limit(protocol_.settings().stall_limit);
  if (!device_watch_.due(now)) return;
  const BatchWatch::Findings found = device_watch_.check(
      now, topology_.size == 1 ? executor_.unfinished() : executor_.on_devices());
  if (found.warning) warn(*found.warning);
  if (!found.failure.ok()) fail(found.failure);
}

// Of what runs no batch: `number` is the outcome's.
void Coordinator::finish(Ticket ticket, std::int64_t number) {
  if (ticket == 0) return;
  const InFlightPtr entry = table_.find(ticket);
  table_.remove(ticket);
  entry->completion.finish({}, {.number = number});
}

void Coordinator::fail(Ticket ticket, const Status& why) {
  const InFlightPtr entry = table_.find(ticket);
  table_.remove(ticket);
  if (runs_batches(entry->submission.request.kind)) observers_.failed(*entry, why);
  entry->completion.finish(why);
}

void Coordinator::warn(const std::string& text) {
  log(LogLevel::kWarning, text);
  notifier_.report(text);
}

}  // namespace hvd
