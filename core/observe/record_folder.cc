#include "core/observe/record_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/system/job_name.h"
#include "core/system/output_file.h"

namespace hvd {
namespace {

constexpr mode_t kPrivateFolder = 0700;
constexpr mode_t kPrivateFile = 0600;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw InvalidArgumentError("cannot write the flight recorder's '" + path + "': " + why);
}

[[noreturn]] void refuse(const std::string& path) {
  refuse(path, std::strerror(errno));
}

[[noreturn]] void refuse_place(const std::string& path, const std::string& why) {
  refuse(path, why + "; remove it, or set HVD_FLIGHT_RECORDER_DIR to a folder of your own");
}

// Asks the folder that is open: no other can be put in its place meanwhile.
void check_private(const UniqueFd& folder, const std::string& path) {
  struct stat status {};
  if (fstat(folder.get(), &status) != 0) refuse(path);
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse_place(path, "it belongs to somebody else, or others may write to it");
  }
}

UniqueFd open_base(const RecordFolder& where) {
  // One that the user chose may be a link.
  const int no_link = where.is_default ? O_NOFOLLOW : 0;
  if (mkdir(where.base.c_str(), kPrivateFolder) != 0 && errno != EEXIST) refuse(where.base);
  UniqueFd base(open(where.base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | no_link));
  if (!base && where.is_default) refuse_place(where.base, std::strerror(errno));
  if (!base) refuse(where.base);
  if (where.is_default) check_private(base, where.base);
  return base;
}

using NameFilter = std::function<bool(std::string_view)>;

std::vector<std::string> names_in(const UniqueFd& folder, const NameFilter& wanted) {
  std::vector<std::string> names;
  // From its beginning, whoever has read it before; closedir() closes the descriptor.
  DIR* const stream = fdopendir(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return names;
  while (const dirent* const entry = readdir(stream)) {
    if (wanted(entry->d_name)) names.emplace_back(entry->d_name);
  }
  closedir(stream);
  return names;
}

void remove_job(const UniqueFd& base, const std::string& job) {
  const UniqueFd folder(
      openat(base.get(), job.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return;
  const auto is_record = [](std::string_view name) {
    return name.starts_with("flight_recorder.rank");
  };
  for (const std::string& name : names_in(folder, is_record)) {
    unlinkat(folder.get(), name.c_str(), 0);
  }
  unlinkat(base.get(), job.c_str(), AT_REMOVEDIR);  // not if the user keeps something there
}

// Ranks of other jobs may do the same just now: what is gone already is fine.
void remove_old_jobs(const UniqueFd& base) {
  std::vector<std::pair<std::int64_t, std::string>> jobs;  // when something was put there
  for (std::string& name : names_in(base, is_job_name)) {
    struct stat status {};
    if (fstatat(base.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(status.st_mode)) jobs.emplace_back(status.st_mtim.tv_sec, std::move(name));
  }
  std::ranges::sort(jobs, std::greater<>());
  for (std::size_t i = kJobsKept; i < jobs.size(); ++i) remove_job(base, jobs[i].second);
}

}  // namespace

bool add_record(const RecordFolder& where, const std::string& name, const std::string& text) {
  const std::string path = where.path() + "/" + name;
  const UniqueFd base = open_base(where);
  const bool is_first = mkdirat(base.get(), where.job.c_str(), kPrivateFolder) == 0;
  if (!is_first && errno != EEXIST) refuse(where.path());
  const UniqueFd folder(
      openat(base.get(), where.job.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) refuse(where.path());
  check_private(folder, where.path());
  const std::string part = name + ".part";
  unlinkat(folder.get(), part.c_str(), 0);  // of a process that was killed
  const UniqueFd file(openat(folder.get(), part.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kPrivateFile));
  if (!file) refuse(path);
  if (!write_all(file, text) ||
      renameat(folder.get(), part.c_str(), folder.get(), name.c_str()) != 0) {
    const int why = errno;
    unlinkat(folder.get(), part.c_str(), 0);
    refuse(path, std::strerror(why));
  }
  if (is_first && where.is_default) remove_old_jobs(base);
  return is_first;
}

}  // namespace hvd
