#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>

namespace hvd::engine::test {

// Where a process finds a block of another one. Bytes that may travel.
struct BlockName {
  pid_t process = 0;
  int file = -1;     // open there
  ino_t number = 0;  // of the file: one that was closed may have a successor
  std::size_t bytes = 0;
};

// As what CUDA and NCCL call a handle: some bytes.
template <typename Handle>
void write_name(const BlockName& name, Handle& handle) {
  static_assert(sizeof name <= sizeof handle);
  std::memset(&handle, 0, sizeof handle);
  std::memcpy(&handle, &name, sizeof name);
}
template <typename Handle>
BlockName read_name(const Handle& handle) {
  BlockName name;
  std::memcpy(static_cast<void*>(&name), &handle, sizeof name);
  return name;
}

// Memory of a file without a name, which other processes map by its owner's process number: nothing
// is left of it when the last of them ends, however it does. Zeros at first; pages that nobody
// touches take no memory.
class SharedBlock {
 public:
  // Nothing if the system has no memory, or no files, for it.
  static std::unique_ptr<SharedBlock> make(std::size_t bytes);
  // Nothing if its owner destroyed it or is gone, or may not be looked at.
  static std::unique_ptr<SharedBlock> open(const BlockName& name);
  // What others have open stays until they close it; nobody opens it any more.
  ~SharedBlock();
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return name_.bytes; }
  // Of the owner's block.
  const BlockName& name() const noexcept { return name_; }
  // How many have it open, over all processes; those that were killed count on.
  std::atomic<int>& users() const noexcept;

 private:
  SharedBlock(std::byte* data, const BlockName& name, bool is_mine)
      : data_(data), name_(name), is_mine_(is_mine) {}
  static std::byte* map(int file, std::size_t bytes);

  std::byte* data_;
  BlockName name_;
  bool is_mine_;
};

}  // namespace hvd::engine::test
