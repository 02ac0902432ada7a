#include "core/negotiate/announcer.h"

#include <algorithm>
#include <string>

#include "core/base/bytes.h"
#include "core/base/status.h"

namespace hvd::engine {

bool Announcer::submit(Ticket ticket, const Request& request, Bytes&& values) {
  const std::string fault = fault_here(request);
  if (!fault.empty()) {
    throw InvalidArgumentError(std::string(name_of(request.kind)) + " \"" + request.name +
                               "\": " + fault);
  }
  if (request.kind == CollectiveKind::kJoin) {
    submissions_.join(request, ticket);
    announce_joins();
    return false;
  }
  const auto slot = log_.cache.find_next(request.name);
  if ((slot && submissions_.has(*slot)) || submissions_.find(request.name) != nullptr) {
    throw InvalidArgumentError(readable_name(request.name) + " is in flight already");
  }
  if (slot && log_.cache.request(*slot).set != request.set) {
    throw InvalidArgumentError(readable_name(request.name) + " belongs to " +
                               describe_set(log_.cache.request(*slot).set) + ", not to " +
                               describe_set(request.set));
  }
  if (!slot || !submissions_.stands_for(*slot, log_.cache.request(*slot), request)) {
    submissions_.add(request, ticket);
    announce(request);
    return false;
  }
  submissions_.add(*slot, request, ticket);
  const bool eager = !values.empty();
  if (eager) readiness_.add({*slot, tree_.rank, std::move(values)}, log_.applied);
  readiness_.add(*slot, ReadinessTracker::kSelf, log_.applied, outbox_);
  return eager;
}

// Why this rank may not submit this now; empty when it may.
std::string Announcer::fault_here(const Request& request) const {
  std::string fault = fault_of(request, log_.sets);
  if (!fault.empty()) return fault;
  const auto set = [&] { return describe_set(request.set); };
  const auto rank = [&] { return "rank " + std::to_string(tree_.rank); };
  if (!log_.sets.has(request.set, tree_.rank)) return rank() + " is not in " + set();
  if (submissions_.removes(request.set)) return set() + " is being removed";
  if (submissions_.joins().contains(request.set)) {
    return rank() + " has joined " + set() + " and waits for the others";
  }
  if (request.kind != CollectiveKind::kRemoveSet) return "";
  const ProcessSetId removed = removed_set(request);
  if (submissions_.removes(removed)) return describe_set(removed) + " is being removed already";
  if (submissions_.pending_in(removed) > 0 || submissions_.joins().contains(removed)) {
    return rank() + " has something pending in " + describe_set(removed);
  }
  return "";
}

void Announcer::announce(const Request& request) {
  readiness_.add(Variants{{request, tree_.rank, 1}}, ReadinessTracker::kSelf, log_.applied,
                 outbox_);
}

void Announcer::announce_joins() {
  for (const Joining& joining : submissions_.take_joins(tree_.rank)) {
    outbox_.joined.push_back(joining);
  }
}

void Announcer::report_status(std::uint64_t ask, const std::string& where) {
  RankStatus status = submissions_.status(log_.cache);
  status.rank = tree_.rank;
  status.ask = ask;
  status.where = where;
  outbox_.rank_statuses.push_back(std::move(status));
}

void Announcer::check(const Variants& variants, ReadinessTracker::Reporter from) const {
  std::int64_t count = 0;
  for (const Variant& variant : variants) {
    count += variant.count;
    if (!fault_of(variant.request, log_.sets).empty()) {
      ByteReader::malformed("a request that cannot run");
    }
    if (!log_.sets.expects(variant.request.set, variant.lowest)) {
      ByteReader::malformed("announced by a rank that does not belong to the process set");
    }
  }
  const Request& request = variants.front().request;
  if (count != readiness_.weight(from, request.set)) {
    ByteReader::malformed("announced by too few or too many");
  }
  if (variants.size() == 2 && agree(request, variants[1].request)) {
    ByteReader::malformed("one variant twice");
  }
  if (readiness_.set_of(request.name).value_or(request.set) != request.set) {
    ByteReader::malformed("a name of another process set");
  }
}

void Announcer::check(const Joining& joining, ReadinessTracker::Reporter from) const {
  const std::vector<Rank>& below = tree_.below[from - 1];
  if (!std::binary_search(below.begin(), below.end(), joining.rank) ||
      !log_.sets.known(joining.set) || !log_.sets.expects(joining.set, joining.rank)) {
    ByteReader::malformed("a malformed join");
  }
}

void Announcer::check_eager(const Announcement& announcement,
                            ReadinessTracker::Reporter from) const {
  const std::vector<Rank>& below = tree_.below[from - 1];
  for (const EagerValues& eager : announcement.eager) {
    if (!std::binary_search(below.begin(), below.end(), eager.rank) ||
        std::ranges::find(announcement.slots, eager.slot) == announcement.slots.end()) {
      ByteReader::malformed("values that nobody announced");
    }
    if (readiness_.is_void(eager.slot, announcement.applied)) continue;
    const Request& request = log_.cache.request(eager.slot);
    if (!log_.sets.has(request.set, eager.rank) || eager.values.empty() ||
        eager.values.size() != eager_bytes(request)) {
      ByteReader::malformed("values that do not fit the slot");
    }
  }
}

void Announcer::check(const Announcement& announcement, ReadinessTracker::Reporter from) const {
  if (announcement.applied > log_.applied) ByteReader::malformed("applied what is not decided");
  for (const SlotNumber slot : announcement.slots) {
    if (readiness_.is_void(slot, announcement.applied)) continue;
    if (!log_.cache.defined(slot) || readiness_.weight(from, log_.cache.request(slot).set) == 0) {
      ByteReader::malformed("unknown slot");
    }
  }
  check_eager(announcement, from);
  for (const Variants& variants : announcement.names) check(variants, from);
  for (const Joining& joining : announcement.joined) check(joining, from);
  const auto outside = [&](Rank rank) { return rank >= tree_.size; };
  for (const MissingRanks& absence : announcement.absences) {
    if (!log_.sets.known(absence.set)) ByteReader::malformed("unknown process set");
    if (readiness_.set_of(absence.name).value_or(absence.set) != absence.set) {
      ByteReader::malformed("a name of another process set");
    }
    if (std::any_of(absence.missing.begin(), absence.missing.end(), outside)) {
      ByteReader::malformed("rank out of range");
    }
  }
  for (const RankStatus& rank_status : announcement.rank_statuses) {
    if (outside(rank_status.rank)) ByteReader::malformed("rank out of range");
  }
  for (const Leaving& one : announcement.leaving) {
    if (outside(one.rank)) ByteReader::malformed("rank out of range");
  }
}

void Announcer::take(Announcement& below, ReadinessTracker::Reporter from) {
  const std::uint64_t applied = below.applied;
  readiness_.child_applied(from, applied);
  for (EagerValues& eager : below.eager) readiness_.add(std::move(eager), applied);
  for (const SlotNumber slot : below.slots) readiness_.add(slot, from, applied, outbox_);
  for (const Variants& variants : below.names) readiness_.add(variants, from, applied, outbox_);
  const auto pass_on = [](auto& into, const auto& from_below) {
    into.insert(into.end(), from_below.begin(), from_below.end());
  };
  pass_on(outbox_.leaving, below.leaving);
  pass_on(outbox_.joined, below.joined);
  pass_on(outbox_.finished, below.finished);
  for (RankStatus& status : below.rank_statuses) {
    outbox_.rank_statuses.push_back(std::move(status));
  }
}

void Announcer::recount(ProcessSetId set) {
  readiness_.recount(set, log_.applied, outbox_);
}

}  // namespace hvd::engine
