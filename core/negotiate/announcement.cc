#include "core/negotiate/announcement.h"

#include <algorithm>

namespace hvd {
namespace {

void write_ranks(ByteWriter& out, const std::vector<Rank>& ranks) {
  out.put(static_cast<std::uint32_t>(ranks.size()));
  for (const Rank rank : ranks) out.put(static_cast<std::int32_t>(rank));
}

Rank read_rank(ByteReader& in) {
  const auto rank = in.get<std::int32_t>();
  if (rank < 0) ByteReader::malformed("negative rank");
  return rank;
}

void read_ranks(ByteReader& in, std::vector<Rank>& ranks) {
  ranks.resize(in.get_count(sizeof(std::int32_t)));
  for (Rank& rank : ranks) rank = read_rank(in);
}

Variants read_variants(ByteReader& in) {
  const auto count = in.get<std::uint8_t>();
  if (count == 0 || count > kMaxVariants) ByteReader::malformed("number of variants");
  Variants variants;
  for (int i = 0; i < count; ++i) {
    Variant variant;
    variant.lowest = read_rank(in);
    variant.count = in.get<std::int32_t>();
    if (variant.count < 1) ByteReader::malformed("a variant nobody announced");
    variant.request = read_request(in);
    if (i > 0 && variant.request.name != variants.front().request.name) {
      ByteReader::malformed("variants of two names");
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

void write_variants(ByteWriter& out, const Variants& variants) {
  out.put(static_cast<std::uint8_t>(variants.size()));
  for (const Variant& variant : variants) {
    out.put(static_cast<std::int32_t>(variant.lowest));
    out.put(static_cast<std::int32_t>(variant.count));
    write(out, variant.request);
  }
}

}  // namespace

void merge(Variants& into, const Variant& variant) {
  auto same = std::find_if(into.begin(), into.end(),
                           [&](const Variant& v) { return v.request == variant.request; });
  if (same == into.end() && into.size() < kMaxVariants) {
    into.push_back(variant);
    return;
  }
  if (same == into.end()) {
    into.back().count += variant.count;
    return;
  }
  same->count += variant.count;
  same->lowest = std::min(same->lowest, variant.lowest);
}

bool Announcement::empty() const {
  return slots.empty() && names.empty() && leaving.empty() && absences.empty() && sightings.empty();
}

void Announcement::clear() {
  slots.clear();
  names.clear();
  leaving.clear();
  absences.clear();
  sightings.clear();
}

void write(ByteWriter& out, const Announcement& announcement) {
  out.put(announcement.applied);
  out.put(static_cast<std::uint32_t>(announcement.slots.size()));
  for (const SlotNumber slot : announcement.slots) out.put(slot);
  out.put(static_cast<std::uint32_t>(announcement.names.size()));
  for (const Variants& variants : announcement.names) write_variants(out, variants);
  write_ranks(out, announcement.leaving);
  out.put(static_cast<std::uint32_t>(announcement.absences.size()));
  for (const Absence& absence : announcement.absences) {
    out.put_string(absence.name);
    out.put(static_cast<std::int64_t>(absence.held.count()));
    write_ranks(out, absence.missing);
  }
  out.put(static_cast<std::uint32_t>(announcement.sightings.size()));
  for (const Sighting& sighting : announcement.sightings) {
    out.put(static_cast<std::int32_t>(sighting.rank));
    out.put_string(sighting.last_submitted);
  }
}

void read_announcement(ByteReader& in, Announcement& announcement) {
  announcement.clear();
  announcement.applied = in.get<std::uint64_t>();
  announcement.slots.resize(in.get_count(sizeof(SlotNumber)));
  for (SlotNumber& slot : announcement.slots) slot = in.get<SlotNumber>();
  const std::size_t names = in.get_count(1);
  for (std::size_t i = 0; i < names; ++i) announcement.names.push_back(read_variants(in));
  read_ranks(in, announcement.leaving);
  const std::size_t absences = in.get_count(16);
  for (std::size_t i = 0; i < absences; ++i) {
    Absence absence;
    absence.name = in.get_string();
    const auto held = in.get<std::int64_t>();
    if (held < 0) ByteReader::malformed("negative time");
    absence.held = Duration(held);
    read_ranks(in, absence.missing);
    announcement.absences.push_back(std::move(absence));
  }
  const std::size_t sightings = in.get_count(8);
  for (std::size_t i = 0; i < sightings; ++i) {
    Sighting sighting;
    sighting.rank = read_rank(in);
    sighting.last_submitted = in.get_string();
    announcement.sightings.push_back(std::move(sighting));
  }
  in.expect_end();
}

}  // namespace hvd
