#include "runner/rank_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/status.h"

namespace hvd::runner {
namespace {

std::string folder_of(int rank, int np) {
  std::string number = std::to_string(rank);
  number.insert(0, std::to_string(np - 1).size() - number.size(), '0');
  return "rank." + number;
}

}  // namespace

RankFiles::RankFiles(const std::string& folder, int np) {
  if (folder.empty()) return;
  for (int rank = 0; rank < np; ++rank) {
    const auto place = std::filesystem::path(folder) / folder_of(rank, np);
    std::error_code problem;
    std::filesystem::create_directories(place, problem);
    for (const auto& [stream, name] :
         std::array{std::pair(Stream::kStdout, "stdout"), std::pair(Stream::kStderr, "stderr")}) {
      File file{
          UniqueFd(open((place / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)),
          (place / name).string()};
      if (!file.fd) {
        throw InvalidArgumentError("--output-filename: cannot create '" + file.path +
                                   "': " + std::strerror(problem ? problem.value() : errno));
      }
      files_.emplace(std::pair(rank, stream), std::move(file));
    }
  }
}

std::string RankFiles::write(int rank, Stream stream, std::string_view bytes) {
  const auto it = files_.find({rank, stream});
  if (it == files_.end()) return "";
  while (!bytes.empty()) {
    const ssize_t written = ::write(it->second.fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const std::string why = it->second.path + ": " + std::strerror(errno) +
                              "; what follows of this rank is not in the file";
      files_.erase(it);
      return why;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return "";
}

}  // namespace hvd::runner
