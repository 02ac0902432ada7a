#include "ops/shm/arena_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "ops/shm/shared_memory.h"

namespace hvd {
namespace {

constexpr std::size_t kPartAlignment = std::size_t{2} << 20;  // that of huge pages

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

void free_pages(const UniqueFd& file, std::size_t offset, std::size_t bytes) noexcept {
  constexpr int kHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(file.get(), kHole, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0 &&
         errno == EINTR) {
  }
}

}  // namespace

ArenaPart::ArenaPart(std::shared_ptr<const UniqueFd> file, std::size_t offset, std::size_t bytes,
                     bool owned)
    : file_(std::move(file)), offset_(offset), bytes_(bytes), owned_(owned) {
  void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_->get(),
                    static_cast<off_t>(offset_));
  if (data == MAP_FAILED) {
    const int error = errno;
    if (owned_) free_pages(*file_, offset_, bytes_);
    throw UnsupportedError("a mapping of " + std::to_string(bytes_) +
                           " bytes of shared memory failed: " + std::strerror(error));
  }
  data_ = static_cast<std::byte*>(data);
}

ArenaPart::~ArenaPart() {
  munmap(data_, bytes_);
  if (owned_) free_pages(*file_, offset_, bytes_);
}

ArenaFiles::ArenaFiles(std::vector<UniqueFd> files, int rank) : rank_(rank) {
  for (UniqueFd& file : files) {
    files_.push_back(std::make_shared<const UniqueFd>(std::move(file)));
  }
}

std::shared_ptr<ArenaPart> ArenaFiles::make(std::size_t bytes) {
  const auto& file = files_[static_cast<std::size_t>(rank_)];
  const std::size_t offset = next_;
  if (const int error = reserve_pages(*file, offset, bytes)) {
    free_pages(*file, offset, bytes);  // what it got before it failed
    throw UnsupportedError("no shared memory for " + std::to_string(bytes) +
                           " bytes: " + std::strerror(error));
  }
  next_ += whole_pages(bytes);
  return std::make_shared<ArenaPart>(file, offset, bytes, true);
}

std::shared_ptr<ArenaPart> ArenaFiles::open(int rank, std::size_t offset, std::size_t bytes) const {
  const auto& file = files_[static_cast<std::size_t>(rank)];
  struct stat status {};
  const bool is_there = fstat(file->get(), &status) == 0 && status.st_size >= 0 &&
                        offset <= static_cast<std::size_t>(status.st_size) &&
                        bytes <= static_cast<std::size_t>(status.st_size) - offset;
  if (!is_there) {
    throw PeerLostError("an arena of " + std::to_string(bytes) + " bytes at " +
                        std::to_string(offset) + " is not in the file of local rank " +
                        std::to_string(rank) + ", which has " + std::to_string(status.st_size));
  }
  return std::make_shared<ArenaPart>(file, offset, bytes, false);
}

}  // namespace hvd
