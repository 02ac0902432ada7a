#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "runner/link/wire.h"
#include "runner/process.h"

namespace hvd::runner {

// The files of --output-filename: FOLDER/rank.N/stdout and FOLDER/rank.N/stderr, N with the digits
// of the last rank (rank.03 of 16). They have what the ranks wrote, byte by byte.
class RankFiles {
 public:
  // An empty `folder` means no files. Throws InvalidArgumentError when a file cannot be created.
  RankFiles(const std::string& folder, int np);

  // What went wrong, once; empty when all went well.
  std::string write(int rank, Stream stream, std::string_view bytes);

 private:
  struct File {
    UniqueFd fd;
    std::string path;
  };
  std::map<std::pair<int, Stream>, File> files_;
};

}  // namespace hvd::runner
