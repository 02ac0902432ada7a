#pragma once

#include <string>

namespace hvd {

// Where the ranks of one job leave what they know when it failed: <base>/<job>.
struct RecordFolder {
  std::string base;
  std::string job;
  // `base` is the default, in a folder that others may use too: it has to be a folder of this user
  // that nobody else may write to, and only the newest of its jobs are kept.
  bool is_default = false;

  std::string path() const { return base + "/" + job; }
};

// Puts a file into it, whole or not at all, which only this user can read. Makes both folders
// (0700) where they are missing, and returns whether the job's was: one process of each host gets
// true. Follows no link that others may have put there, and replaces and removes only what is this
// user's. Throws InvalidArgumentError with path and reason. Any thread, any process.
bool add_record(const RecordFolder& folder, const std::string& name, const std::string& text);

// Jobs whose folders are kept in the default base.
inline constexpr int kJobsKept = 16;

}  // namespace hvd
