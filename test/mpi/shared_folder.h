#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/base/clock.h"

// Empty files in the folder that recovery.sh shares among the ranks: for what they have to tell
// each other when messages are not possible, or would change what is tested.
namespace hvd::engine::test {

inline std::filesystem::path in_shared_folder(const std::string& name) {
  return std::filesystem::path(std::getenv("HVD_TEST_FOLDER")) / name;
}

inline void announce(const std::string& name) {
  std::ofstream{in_shared_folder(name)};
}

// Whether a rank has announced `name` within 30 s.
inline bool wait_for(const std::string& name) {
  const TimePoint limit = Clock::now() + std::chrono::seconds(30);
  while (!std::filesystem::exists(in_shared_folder(name))) {
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace hvd::engine::test
