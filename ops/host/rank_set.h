#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/topology.h"

namespace hvd::host {

inline constexpr std::uint64_t kWorldKey = 0;

// What tells a subset from all others, on all ranks alike. Numbers are unique among the subsets of
// one set only. Those of the world keep theirs, so that keys modulo something return as late as can
// be; those of others are spread (the finaliser of SplitMix64).
constexpr std::uint64_t subset_key(std::uint64_t parent, std::uint32_t number) {
  if (parent == kWorldKey) return std::uint64_t{number} + 1;
  std::uint64_t mixed = (parent << 32 | parent >> 32) + number + 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return mixed ^ mixed >> 31;
}

// The ranks of one Collective among those of a world.
class RankSet {
 public:
  RankSet(const RankSet&) = delete;
  RankSet& operator=(const RankSet&) = delete;

  // Tells it from all other sets, on all ranks alike.
  std::uint64_t key() const noexcept { return key_; }
  std::size_t size() const noexcept { return world_ranks_.size(); }
  std::size_t rank() const noexcept { return rank_; }
  Rank world_rank(std::size_t rank) const { return world_ranks_[rank]; }

  // Of this set and those made from it. Any thread.
  void abort() noexcept { aborted_ = true; }
  bool is_aborted() const noexcept;
  void throw_if_aborted() const;

 protected:
  // All ranks of a world.
  RankSet(Rank mine, int world_size);
  // `world_ranks` ascend; `mine` is among them.
  RankSet(std::shared_ptr<const RankSet> parent, std::uint32_t number, Rank mine,
          std::vector<Rank> world_ranks);
  ~RankSet() = default;

  const std::vector<Rank>& world_ranks() const noexcept { return world_ranks_; }

 private:
  std::shared_ptr<const RankSet> parent_;
  std::uint64_t key_ = kWorldKey;
  std::vector<Rank> world_ranks_;
  std::size_t rank_ = 0;
  std::atomic<bool> aborted_{false};
};

}  // namespace hvd::host
