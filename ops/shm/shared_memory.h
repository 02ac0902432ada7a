#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/unique_fd.h"

namespace hvd::engine {

// Memory that several processes map, of an anonymous file (memfd): it has no name, so no other
// process finds it, the size of /dev/shm does not matter, and the system frees it with the last
// process that has it, however that ends. Others get the descriptor (ops/connect/host_topology.h).
// Pages are reserved before they are touched, so that touching them cannot raise SIGBUS.
class SharedMemory {
 public:
  // Zeroed memory. Throws UnsupportedError that says how much was asked for and what failed.
  // Only the first `reserved` bytes may be touched before reserve().
  static std::shared_ptr<SharedMemory> create(std::size_t bytes, std::size_t reserved);
  static std::shared_ptr<SharedMemory> create(std::size_t bytes) { return create(bytes, bytes); }
  // What another process made and gave us. Throws PeerLostError if there is less of it.
  static std::shared_ptr<SharedMemory> open(UniqueFd fd, std::size_t bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // To be handed to other processes.
  const UniqueFd& fd() const noexcept { return fd_; }
  // Whatever process reserves a page, all may touch it. Throws UnsupportedError when there is no
  // memory left.
  void reserve(std::size_t offset, std::size_t bytes);

 private:
  SharedMemory() = default;
  static std::shared_ptr<SharedMemory> map(UniqueFd fd, std::size_t bytes);

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// An anonymous file of 0 bytes. Throws UnsupportedError.
UniqueFd make_memory_file();

// Gives `bytes` bytes from `offset` on pages, and makes the file as long. 0 or an errno. Signals
// only delay it.
int reserve_pages(const UniqueFd& file, std::size_t offset, std::size_t bytes) noexcept;

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

}  // namespace hvd::engine
