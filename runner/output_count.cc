#include "runner/output_count.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

std::string path_of(int fd) {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
}

}  // namespace

OutputCount::OutputCount() : file_(memfd_create("hvdrun output count", MFD_CLOEXEC)) {
  void* memory = MAP_FAILED;
  if (ftruncate(file_.get(), sizeof *memory_) == 0) {
    memory = mmap(nullptr, sizeof *memory_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  }
  if (memory == MAP_FAILED) {
    throw InternalError("cannot make a memory file: ", std::strerror(errno));
  }
  memory_ = static_cast<std::uint64_t*>(memory);
}

OutputCount::~OutputCount() {
  munmap(memory_, sizeof *memory_);
}

std::string OutputCount::place(int out, int err) const {
  struct stat info {};
  fstat(file_.get(), &info);
  std::string text = path_of(file_.get()) + " " + std::to_string(info.st_ino);
  for (const int fd : {out, err}) text += " " + std::filesystem::read_symlink(path_of(fd)).string();
  return text;
}

}  // namespace hvd::runner
