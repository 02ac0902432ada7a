#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include <horovod_cpp/horovod.h>

// Throws InvalidArgumentError naming the option unless `path` is empty or in a folder that is
// there: better now than after the training whose outcome it is for.
inline void check_output(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return;
  throw hvd::InvalidArgumentError(option + " " + path + ": there is no folder " + folder.string());
}
