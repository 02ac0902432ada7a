#include "core/observe/stragglers.h"

#include <algorithm>
#include <utility>

namespace hvd {

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
  if (waits.size() < 2) return;  // nobody to compare with
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

}  // namespace hvd
