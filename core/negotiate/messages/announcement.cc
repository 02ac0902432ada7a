#include "core/negotiate/messages/announcement.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/negotiate/messages/message.h"

namespace hvd::engine {
namespace {

template <typename Io>
void serialize_rank(Io& io, Fields<Io, Rank>& rank) {
  io.number(rank);
  if (Io::kReads && rank < 0) ByteReader::malformed("negative rank");
}

template <typename Io>
void serialize(Io& io, Fields<Io, Leaving>& leaving) {
  serialize_rank(io, leaving.rank);
  io.number(leaving.submissions);
}

template <typename Io>
void serialize(Io& io, Fields<Io, EagerValues>& eager) {
  io.number(eager.slot);
  serialize_rank(io, eager.rank);
  io.bytes(eager.values);
}

template <typename Io>
void serialize(Io& io, Fields<Io, MissingRanks>& absence) {
  io.number(absence.set);
  io.text(absence.name);
  io.duration(absence.held);
  io.list(absence.missing, sizeof(Rank), [&](auto& rank) { serialize_rank(io, rank); });
}

template <typename Io>
void serialize(Io& io, Fields<Io, RankStatus>& status) {
  serialize_rank(io, status.rank);
  io.number(status.ask);
  io.number(status.submissions);
  io.text(status.last_submitted);
  io.number(status.pending);
  io.text(status.waits_for);
  io.number(status.waits_number);
  io.numbers(status.joins);
  io.text(status.where);
}

template <typename Io>
void serialize(Io& io, Fields<Io, Variants>& variants) {
  auto count = static_cast<std::uint8_t>(variants.size());
  io.number(count);
  if constexpr (Io::kReads) {
    if (count == 0 || count > kMaxVariants) ByteReader::malformed("number of variants");
    variants.resize(count);
  }
  const Request& first = variants.front().request;
  for (auto& variant : variants) {
    serialize_rank(io, variant.lowest);
    io.number(variant.count);
    if (Io::kReads && variant.count < 1) ByteReader::malformed("a variant that no rank announced");
    serialize(io, variant.request);
    const bool same = variant.request.name == first.name && variant.request.set == first.set;
    if (Io::kReads && !same) ByteReader::malformed("variants of two names");
  }
}

// In the order in which they travel.
auto lists_of(auto& a) {
  return std::tie(a.slots, a.eager, a.names, a.leaving, a.joined, a.finished, a.absences,
                  a.rank_statuses);
}

std::uint8_t present_lists(const Announcement& announcement) {
  unsigned present = 0;
  unsigned bit = 1;
  const auto look = [&](const auto& list) {
    if (!list.empty()) present |= bit;
    bit <<= 1;
  };
  std::apply([&](const auto&... list) { (look(list), ...); }, lists_of(announcement));
  return static_cast<std::uint8_t>(present);
}

}  // namespace

void merge(Variants& into, const Variant& variant) {
  auto same = std::find_if(into.begin(), into.end(),
                           [&](const Variant& v) { return agree(v.request, variant.request); });
  if (same == into.end() && into.size() < kMaxVariants) {
    into.push_back(variant);
    return;
  }
  if (same == into.end()) {
    Variant& last = into.back();
    if (last.request.numbers.empty() && !variant.request.numbers.empty()) {
      last.request = variant.request;
      last.lowest = variant.lowest;
    }
    last.count += variant.count;
    return;
  }
  merge(same->request, variant.request);
  same->count += variant.count;
  same->lowest = std::min(same->lowest, variant.lowest);
}

void Announcement::clear() {
  std::apply([](auto&... list) { (list.clear(), ...); }, lists_of(*this));
}

template <typename Io>
void serialize(Io& io, Fields<Io, Joining>& joining) {
  io.number(joining.set);
  serialize_rank(io, joining.rank);
  io.flag(joining.joins_average);
}

// Most announcements have one list: a bit for each says which are there. The numbers are those of
// bytes that each item takes at least.
template <typename Io>
void serialize(Io& io, Fields<Io, Announcement>& announcement) {
  io.number(announcement.applied);
  std::uint8_t present = 0;
  if constexpr (!Io::kReads) present = present_lists(announcement);
  io.number(present);
  const auto next_is_present = [&present] {
    return (std::exchange(present, present >> 1) & 1) != 0;
  };
  const auto numbers = [&](auto& items) {
    if (next_is_present()) return io.numbers(items);
    if constexpr (Io::kReads) items.clear();
  };
  const auto list = [&](auto& items, std::size_t bytes_each) {
    const auto each = [&io](auto& item) { serialize(io, item); };
    if (next_is_present()) return io.list(items, bytes_each, each);
    if constexpr (Io::kReads) items.clear();
  };
  numbers(announcement.slots);
  list(announcement.eager, 12);
  list(announcement.names, 1);
  list(announcement.leaving, 12);
  list(announcement.joined, 9);
  numbers(announcement.finished);
  list(announcement.absences, 20);
  list(announcement.rank_statuses, 52);
  if constexpr (Io::kReads) io.expect_end();
}

template void serialize(ByteWriter& io, const Joining& joining);
template void serialize(ByteReader& io, Joining& joining);
template void serialize(ByteWriter& io, const Announcement& announcement);
template void serialize(ByteReader& io, Announcement& announcement);

}  // namespace hvd::engine
