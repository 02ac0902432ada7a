#include "core/base/follow_links.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace hvd {
namespace {

constexpr int kMostLinks = 40;  // as the system

// Whether who made the link may lead us on.
bool may_follow(const std::filesystem::path& link, const struct stat& of_link) {
  constexpr mode_t kShared = S_ISVTX | S_IWOTH;
  const std::filesystem::path folder = link.has_parent_path() ? link.parent_path() : ".";
  struct stat of_folder {};
  if (stat(folder.c_str(), &of_folder) != 0) return false;
  return (of_folder.st_mode & kShared) != kShared || of_link.st_uid == geteuid() ||
         of_link.st_uid == of_folder.st_uid;
}

}  // namespace

std::string follow_links(const std::string& path, std::error_code& error) {
  error.clear();
  std::filesystem::path at = path;
  for (int count = 0; count <= kMostLinks; ++count) {
    struct stat status {};
    if (lstat(at.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return at;
    if (!may_follow(at, status)) {
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
