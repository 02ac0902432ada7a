#pragma once

#include <cstdint>

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

}  // namespace hvd::host
