#include "test/gpu/logic/shared_block.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

namespace hvd::engine::test {
namespace {

constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// A page behind the memory has the number of users.
std::size_t mapped_bytes(std::size_t bytes) {
  return whole_pages(bytes) + kPage;
}

}  // namespace

std::byte* SharedBlock::map(int file, std::size_t bytes) {
  void* const at = mmap(nullptr, mapped_bytes(bytes), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

std::unique_ptr<SharedBlock> SharedBlock::make(std::size_t bytes) {
  const int file = memfd_create("gpu-on-host", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status {};
  std::byte* data = nullptr;
  if (ftruncate(file, static_cast<off_t>(mapped_bytes(bytes))) == 0 && fstat(file, &status) == 0) {
    data = map(file, bytes);
  }
  if (data == nullptr) {
    close(file);
    return nullptr;
  }
  const BlockName name = {getpid(), file, status.st_ino, bytes};
  return std::unique_ptr<SharedBlock>(new SharedBlock(data, name, true));
}

std::unique_ptr<SharedBlock> SharedBlock::open(const BlockName& name) {
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status {};
  const bool is_it = fstat(file, &status) == 0 && status.st_ino == name.number;
  std::byte* const data = is_it ? map(file, name.bytes) : nullptr;
  close(file);
  if (data == nullptr) return nullptr;
  auto opened = std::unique_ptr<SharedBlock>(new SharedBlock(data, name, false));
  ++opened->users();
  return opened;
}

SharedBlock::~SharedBlock() {
  if (!is_mine_) --users();
  munmap(data_, mapped_bytes(name_.bytes));
  if (is_mine_) close(name_.file);
}

std::atomic<int>& SharedBlock::users() const noexcept {
  return *reinterpret_cast<std::atomic<int>*>(data_ + whole_pages(name_.bytes));
}

}  // namespace hvd::engine::test
