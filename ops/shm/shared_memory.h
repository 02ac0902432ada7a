#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace hvd {

// Memory that several processes map. Its pages are reserved when it is made, so that touching them
// later cannot raise SIGBUS.
class SharedMemory {
 public:
  // Zeroed memory, to be opened by path() from other processes of this user on this host until
  // remove_name(). Lies in /dev/shm; where that is missing or full, in a memfd (with one warning).
  // Throws UnsupportedError that says how much was asked for and what failed.
  static std::shared_ptr<SharedMemory> create(std::size_t bytes);
  // Throws PeerLostError if nothing of that name is there.
  static std::shared_ptr<SharedMemory> open(const std::string& path, std::size_t bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  const std::string& path() const noexcept { return path_; }
  // From now on nobody can open it, and the system frees it with its last mapping. Idempotent; only
  // the creator's call does something.
  void remove_name() noexcept;

 private:
  SharedMemory() = default;
  static std::shared_ptr<SharedMemory> map(int fd, std::size_t bytes, std::string path);

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::string path_;
  bool has_name_ = false;  // a file in /dev/shm that we made
  int memfd_ = -1;
};

}  // namespace hvd
