#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/unique_fd.h"

namespace hvd {

// A rank's part of an arena, mapped here. The rank whose part it is frees the pages with its own
// mapping: by then no other rank reads or writes them (see Collective::all_reduce), and what maps
// them still finds zeroes.
class ArenaPart {
 public:
  ArenaPart(std::shared_ptr<const UniqueFd> file, std::size_t offset, std::size_t bytes,
            bool owned);
  ~ArenaPart();
  ArenaPart(const ArenaPart&) = delete;
  ArenaPart& operator=(const ArenaPart&) = delete;

  std::byte* data() const noexcept { return data_; }
  // In its rank's file.
  std::size_t offset() const noexcept { return offset_; }

 private:
  std::shared_ptr<const UniqueFd> file_;
  std::size_t offset_;
  std::size_t bytes_;
  bool owned_;
  std::byte* data_ = nullptr;
};

// An anonymous file for each rank of the host, of which every one has all: in its own a rank makes
// its parts of arenas, and it tells the others where they begin. So nothing of an arena has to be
// handed over, or has a name. Offsets are not used again: a file is as long as all arenas of its
// rank were, and takes memory for those that exist. For one thread; parts may outlive it.
class ArenaFiles {
 public:
  // By rank of the host, of which this is the `rank`-th.
  ArenaFiles(std::vector<UniqueFd> files, int rank);

  // A part of this rank: zeroed, with all its pages. Throws UnsupportedError.
  std::shared_ptr<ArenaPart> make(std::size_t bytes);
  // What another rank made. Throws UnsupportedError, PeerLostError if it is not there.
  std::shared_ptr<ArenaPart> open(int rank, std::size_t offset, std::size_t bytes) const;

 private:
  std::vector<std::shared_ptr<const UniqueFd>> files_;
  int rank_;
  std::size_t next_ = 0;  // offset in this rank's file
};

}  // namespace hvd
