#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/base/unique_fd.h"

namespace hvd {

// Memory that several processes map. Pages are reserved before they are touched, so that touching
// them cannot raise SIGBUS.
class SharedMemory {
 public:
  // Zeroed memory, to be opened by path() from other processes of this user on this host until
  // remove_name(). Lies in /dev/shm; where that is missing or full, in a memfd (with one warning).
  // Throws UnsupportedError that says how much was asked for and what failed.
  // Only the first `reserved` bytes may be touched before reserve().
  static std::shared_ptr<SharedMemory> create(std::size_t bytes, std::size_t reserved);
  static std::shared_ptr<SharedMemory> create(std::size_t bytes) { return create(bytes, bytes); }
  // Throws PeerLostError if nothing of that name is there.
  static std::shared_ptr<SharedMemory> open(const std::string& path, std::size_t bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  const std::string& path() const noexcept { return path_; }
  // Whatever process reserves a page, all may touch it. Throws UnsupportedError when there is no
  // memory left.
  void reserve(std::size_t offset, std::size_t bytes);
  // From now on nobody finds it, and the system frees it with its last mapping. Idempotent; only
  // the creator's call does something.
  void remove_name() noexcept;

 private:
  SharedMemory() = default;
  static std::shared_ptr<SharedMemory> map(UniqueFd fd, std::size_t bytes, std::string path);

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::string path_;
  bool has_name_ = false;  // a file in /dev/shm that we made
};

}  // namespace hvd
