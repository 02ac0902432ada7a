#include "runner/rank_files.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/status.h"
#include "core/system/files.h"

namespace hvd::runner {
namespace {

std::string folder_of(int rank, int np) {
  std::string number = std::to_string(rank);
  number.insert(0, std::to_string(np - 1).size() - number.size(), '0');
  return "rank." + number;
}

[[noreturn]] void refuse(const std::string& why) {
  throw InvalidArgumentError("--output-filename: " + why);
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
      const std::string path = (place / name).string();
      if (problem) refuse("cannot create '" + path + "': " + problem.message());
      try {
        files_.emplace(std::pair(rank, stream), File{open_output(path), path});
      } catch (const InvalidArgumentError& error) {
        refuse(error.what());
      }
    }
  }
}

std::string RankFiles::write(int rank, Stream stream, std::string_view bytes) {
  const auto it = files_.find({rank, stream});
  if (it == files_.end()) return "";
  if (write_all(it->second.fd, bytes)) return "";
  std::string why = it->second.path + ": " + std::strerror(errno) +
                    "; what follows of this rank is not in the file";
  files_.erase(it);
  return why;
}

}  // namespace hvd::runner
