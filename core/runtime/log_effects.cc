#include "core/runtime/log_effects.h"

#include <utility>
#include <variant>

#include "core/base/status.h"

namespace hvd::engine {

bool LogEffects::apply() {
  bool moved = false;
  while (auto effect = parts_.protocol.next_effect()) {
    std::visit([this](auto& known) { apply(known); }, *effect);
    moved = true;
  }
  return moved;
}

void LogEffects::apply(RunBatch& effect) {
  parts_.executor.run(std::move(effect));
}

void LogEffects::apply(const FailTicket& effect) {
  parts_.fail(effect.ticket, effect.status);
}

void LogEffects::apply(const SetAdded& effect) {
  auto set = std::make_shared<SetMembers>(SetMembers{effect.set, effect.ranks});
  try {
    if (set->has(parts_.topology.rank)) parts_.executor.add_set(set);
  } catch (...) {
    // The asking rank tells the others, and they remove the set: see World::add_process_set. For
    // a rank that has joined none does.
    set->failure = current_status();
    if (effect.ticket == 0) return end_.fail(set->failure);
  }
  parts_.sets.add(std::move(set));
  parts_.finish(effect.ticket, effect.set);
}

void LogEffects::apply(const SetRemoved& effect) {
  parts_.sets.remove(effect.set);
  parts_.executor.remove_set(effect.set);
  parts_.finish(effect.ticket, effect.set);
}

void LogEffects::apply(const AllJoined& effect) {
  parts_.joined.push_back(effect);
  finish_joins();  // the rank that joined last may leave now
}

// A join ends after what this rank submitted before it, whose handles may be dropped. Nothing can
// follow in that set meanwhile: this rank has not left its join.
bool LogEffects::finish_joins() {
  return std::erase_if(parts_.joined, [this](const AllJoined& effect) {
           if (parts_.executor.busy(parts_.table.find(effect.ticket)->submission.request.set))
             return false;
           parts_.finish(effect.ticket, effect.last);
           return true;
         }) > 0;
}

void LogEffects::apply(const ProbeRanks&) {
  if (!parts_.notifier.request_location()) parts_.protocol.status_reported({});
}

void LogEffects::apply(const Report& effect) {
  parts_.warn(effect.text);
}

void LogEffects::apply(const Stopped& effect) {
  end_.stopped(effect);
}

}  // namespace hvd::engine
