#include "core/observe/metrics.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/runtime/wake/waiting.h"

namespace hvd {
namespace {

// In the order in which they travel.
constexpr std::uint64_t BatchTotals::*kCounts[] = {&BatchTotals::batches, &BatchTotals::tensors,
                                                   &BatchTotals::bytes, &BatchTotals::packed_bytes};
constexpr Duration BatchTotals::*kTimes[] = {&BatchTotals::negotiate, &BatchTotals::queue,
                                             &BatchTotals::collective, &BatchTotals::pack,
                                             &BatchTotals::unpack};

}  // namespace

BatchTotals& BatchTotals::operator+=(const BatchTotals& other) {
  for (const auto count : kCounts) this->*count += other.*count;
  for (const auto time : kTimes) this->*time += other.*time;
  return *this;
}

double Histogram::bound(std::size_t bucket) const {
  if (bucket + 1 == kBuckets) return std::numeric_limits<double>::infinity();
  return first * static_cast<double>(std::uint64_t{1} << (2 * bucket));
}

void Histogram::add(double value) {
  std::size_t bucket = 0;
  double limit = first;
  while (bucket + 1 < kBuckets && value > limit) {
    ++bucket;
    limit *= 4;
  }
  ++counts[bucket];
  sum += value;
}

}  // namespace hvd

namespace hvd::engine {
namespace {

// Waits that may wait for collect(); later ones are not compared.
constexpr std::size_t kWaits = std::size_t{1} << 16;

constexpr std::size_t kWaitBytes = 16;  // as it travels

template <typename Io>
void serialize(Io& io, Fields<Io, BatchTotals>& totals) {
  for (const auto count : kCounts) io.number(totals.*count);
  for (const auto time : kTimes) io.duration(totals.*time);
}

}  // namespace

void Stragglers::add(Rank rank, std::uint64_t batch, Duration wait) {
  const auto [it, is_new] = pending_.try_emplace(batch);
  std::vector<Wait>& waits = it->second;
  if (is_new && !spare_.empty()) {
    waits = std::move(spare_.back());
    spare_.pop_back();
  }
  waits.push_back({rank, wait});
  auto ended = pending_.end();
  if (waits.size() == totals_.size()) {
    ended = it;
  } else if (pending_.size() > kPending) {
    ended = pending_.begin();
  }
  if (ended == pending_.end()) return;
  count(ended->second, totals_);
  ended->second.clear();
  spare_.push_back(std::move(ended->second));
  pending_.erase(ended);
}

std::vector<Lateness> Stragglers::totals() const {
  std::vector<Lateness> totals = totals_;
  for (const auto& [batch, waits] : pending_) count(waits, totals);
  return totals;
}

void Stragglers::count(const std::vector<Wait>& waits, std::vector<Lateness>& totals) {
  if (waits.size() < 2) return;  // no rank to compare with
  const auto less = [](const Wait& a, const Wait& b) { return a.wait < b.wait; };
  const auto [shortest, longest] = std::minmax_element(waits.begin(), waits.end(), less);
  for (const Wait& wait : waits) {
    Lateness& lateness = totals[static_cast<std::size_t>(wait.rank)];
    const Duration late = longest->wait - wait.wait;
    ++lateness.batches;
    lateness.total += late;
    lateness.longest = std::max(lateness.longest, late);
  }
  ++totals[static_cast<std::size_t>(shortest->rank)].last;
}

Metrics::Metrics(Rank rank, int size)
    : blocked_before_(blocked_time()),
      sample_every_(static_cast<std::uint64_t>(std::max(1, size / 64))),
      stragglers_(size) {
  now_.rank = rank;
  now_.size = size;
  if (rank == 0) now_.ranks.resize(static_cast<std::size_t>(size));
  reported_at_.resize(now_.ranks.size(), begin_);
}

Duration Metrics::exposed() const {
  return blocked_time() - blocked_before_;
}

MetricsSnapshot Metrics::snapshot() const {
  const MutexLock lock(mutex_);
  MetricsSnapshot snapshot = now_;
  snapshot.age = Clock::now() - begin_;
  snapshot.exposed = exposed();
  if (snapshot.ranks.empty()) return snapshot;
  const std::vector<Lateness> lateness = stragglers_.totals();
  for (std::size_t rank = 0; rank < lateness.size(); ++rank) {
    snapshot.ranks[rank].lateness = lateness[rank];
    snapshot.ranks[rank].age = Clock::now() - reported_at_[rank];
  }
  snapshot.ranks[0].age = Duration::zero();
  snapshot.ranks[0].totals = snapshot.totals;
  snapshot.ranks[0].exposed = snapshot.exposed;
  return snapshot;
}

void Metrics::finished(const BatchInfo& batch) {
  const MutexLock lock(mutex_);
  TimePoint first = batch.negotiated;
  TimePoint last = TimePoint::min();
  BatchTotals done{.batches = 1,
                   .tensors = batch.members.size(),
                   .bytes = batch.bytes,
                   .packed_bytes = batch.packed_bytes,
                   .queue = batch.started - batch.negotiated,
                   .collective = batch.finished - batch.started,
                   .pack = batch.packing,
                   .unpack = batch.unpacking};
  for (const BatchMemberInfo& member : batch.members) {
    if (member.ticket == 0) continue;
    now_.negotiate_seconds.add(to_seconds(batch.negotiated - member.submitted));
    first = std::min(first, member.submitted);
    last = std::max(last, member.submitted);
  }
  done.negotiate = batch.negotiated - first;
  now_.by_kind[static_cast<std::size_t>(batch.kind)] += done;
  now_.totals += done;
  now_.queue_seconds.add(to_seconds(done.queue));
  now_.collective_seconds.add(to_seconds(done.collective));
  now_.batch_bytes.add(static_cast<double>(done.bytes));
  if (last != TimePoint::min()) note_wait(batch, batch.negotiated - last);
}

void Metrics::note_wait(const BatchInfo& batch, Duration wait) {
  if (now_.size == 1 || batch.number % sample_every_ != 0) return;
  if (now_.rank == 0) {
    stragglers_.add(0, batch.number, wait);
  } else if (waits_.size() < kWaits) {
    waits_.push_back({batch.number, wait});
  }
}

void Metrics::failed(std::uint64_t, std::string_view, const Status&, TimePoint) {
  const MutexLock lock(mutex_);
  ++now_.failed;
}

void Metrics::collect(Bytes& out) {
  const MutexLock lock(mutex_);
  ByteWriter writer(out);
  serialize(writer, now_.totals);
  writer.put_duration(exposed());
  writer.list(waits_, kWaitBytes, [&](const Wait& wait) {
    writer.put(wait.batch);
    writer.put_duration(wait.wait);
  });
  waits_.clear();
}

void Metrics::receive(const Observation& observation) {
  ByteReader in(observation.bytes);
  BatchTotals totals;
  serialize(in, totals);
  const Duration exposed = in.get_duration();
  std::vector<Wait> waits;
  in.list(waits, kWaitBytes, [&](Wait& wait) {
    wait.batch = in.get<std::uint64_t>();
    wait.wait = in.get_duration();
  });
  in.expect_end();
  const MutexLock lock(mutex_);
  RankMetrics& sender = now_.ranks[static_cast<std::size_t>(observation.from)];
  sender.totals = totals;
  sender.exposed = exposed;
  reported_at_[static_cast<std::size_t>(observation.from)] = Clock::now();
  for (const Wait& wait : waits) stragglers_.add(observation.from, wait.batch, wait.wait);
}

}  // namespace hvd::engine
