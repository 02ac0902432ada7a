#include "core/system/follow_links.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace hvd {
namespace {

constexpr int kMostLinks = 40;  // as the system

}  // namespace

std::string follow_links(const std::string& path, std::error_code& error) {
  error.clear();
  std::filesystem::path at = path;
  for (int count = 0; count <= kMostLinks; ++count) {
    struct stat status {};
    if (lstat(at.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return at;
    if (status.st_uid != geteuid() && status.st_uid != 0) {
      error = std::make_error_code(std::errc::permission_denied);
      return path;
    }
    const std::filesystem::path next = std::filesystem::read_symlink(at, error);
    if (error) return path;
    at = at.parent_path() / next;  // an absolute one replaces it
  }
  error = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  return path;
}

}  // namespace hvd
