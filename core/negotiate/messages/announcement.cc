#include "core/negotiate/messages/announcement.h"

#include <algorithm>

#include "core/negotiate/messages/message.h"

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

template <typename T>
void write_numbers(ByteWriter& out, const std::vector<T>& numbers) {
  out.put(static_cast<std::uint32_t>(numbers.size()));
  out.put_all(std::span(numbers));
}

template <typename T>
void read_numbers(ByteReader& in, std::vector<T>& numbers) {
  numbers.resize(in.get_count(sizeof(T)));
  in.get_all(std::span(numbers));
}

void write_absence(ByteWriter& out, const MissingRanks& absence) {
  out.put(absence.set);
  out.put_string(absence.name);
  write(out, absence.held);
  write_ranks(out, absence.missing);
}

MissingRanks read_absence(ByteReader& in) {
  MissingRanks absence;
  absence.set = in.get<ProcessSetId>();
  absence.name = in.get_string();
  absence.held = read_duration(in);
  read_ranks(in, absence.missing);
  return absence;
}

void write_rank_status(ByteWriter& out, const RankStatus& rank_status) {
  out.put(static_cast<std::int32_t>(rank_status.rank));
  out.put(rank_status.ask);
  out.put(rank_status.submissions);
  out.put_string(rank_status.last_submitted);
  out.put(rank_status.pending);
  out.put_string(rank_status.waits_for);
  out.put(rank_status.waits_number);
  write_numbers(out, rank_status.joins);
  out.put_string(rank_status.where);
}

RankStatus read_rank_status(ByteReader& in) {
  RankStatus rank_status;
  rank_status.rank = read_rank(in);
  rank_status.ask = in.get<std::uint64_t>();
  rank_status.submissions = in.get<std::uint64_t>();
  rank_status.last_submitted = in.get_string();
  rank_status.pending = in.get<std::uint64_t>();
  rank_status.waits_for = in.get_string();
  rank_status.waits_number = in.get<std::uint64_t>();
  read_numbers(in, rank_status.joins);
  rank_status.where = in.get_string();
  return rank_status;
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
    const Request& first = i > 0 ? variants.front().request : variant.request;
    if (variant.request.name != first.name || variant.request.set != first.set) {
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
                           [&](const Variant& v) { return agree(v.request, variant.request); });
  if (same == into.end() && into.size() < kMaxVariants) {
    into.push_back(variant);
    return;
  }
  if (same == into.end()) {
    into.back().count += variant.count;
    return;
  }
  merge(same->request, variant.request);
  same->count += variant.count;
  same->lowest = std::min(same->lowest, variant.lowest);
}

bool Announcement::empty() const {
  return slots.empty() && names.empty() && leaving.empty() && joined.empty() && finished.empty() &&
         absences.empty() && rank_statuses.empty();
}

void Announcement::clear() {
  slots.clear();
  names.clear();
  leaving.clear();
  joined.clear();
  finished.clear();
  absences.clear();
  rank_statuses.clear();
}

void write(ByteWriter& out, const Joining& joining) {
  out.put(joining.set);
  out.put(static_cast<std::int32_t>(joining.rank));
  out.put(static_cast<std::uint8_t>(joining.joins_average ? 1 : 0));
}

Joining read_joining(ByteReader& in) {
  Joining joining;
  joining.set = in.get<ProcessSetId>();
  joining.rank = read_rank(in);
  joining.joins_average = in.get_flag();
  return joining;
}

void write(ByteWriter& out, const Announcement& announcement) {
  out.put(announcement.applied);
  write_numbers(out, announcement.slots);
  out.put(static_cast<std::uint32_t>(announcement.names.size()));
  for (const Variants& variants : announcement.names) write_variants(out, variants);
  out.put(static_cast<std::uint32_t>(announcement.leaving.size()));
  for (const Leaving& one : announcement.leaving) {
    out.put(static_cast<std::int32_t>(one.rank));
    out.put(one.submissions);
  }
  out.put(static_cast<std::uint32_t>(announcement.joined.size()));
  for (const Joining& joining : announcement.joined) write(out, joining);
  write_numbers(out, announcement.finished);
  out.put(static_cast<std::uint32_t>(announcement.absences.size()));
  for (const MissingRanks& absence : announcement.absences) write_absence(out, absence);
  out.put(static_cast<std::uint32_t>(announcement.rank_statuses.size()));
  for (const RankStatus& rank_status : announcement.rank_statuses)
    write_rank_status(out, rank_status);
}

void read_announcement(ByteReader& in, Announcement& announcement) {
  announcement.clear();
  announcement.applied = in.get<std::uint64_t>();
  read_numbers(in, announcement.slots);
  const std::size_t names = in.get_count(1);
  for (std::size_t i = 0; i < names; ++i) announcement.names.push_back(read_variants(in));
  announcement.leaving.resize(in.get_count(12));
  for (Leaving& one : announcement.leaving) {
    one.rank = read_rank(in);
    one.submissions = in.get<std::uint64_t>();
  }
  announcement.joined.resize(in.get_count(9));
  for (Joining& joining : announcement.joined) joining = read_joining(in);
  read_numbers(in, announcement.finished);
  const std::size_t absences = in.get_count(20);
  for (std::size_t i = 0; i < absences; ++i) announcement.absences.push_back(read_absence(in));
  const std::size_t rank_statuses = in.get_count(52);
  for (std::size_t i = 0; i < rank_statuses; ++i)
    announcement.rank_statuses.push_back(read_rank_status(in));
  in.expect_end();
}

}  // namespace hvd
