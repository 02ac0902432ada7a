#include "core/system/host.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/status.h"

namespace hvd::engine {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

void draw_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = getrandom(bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw InternalError(std::string("no random numbers, getrandom: ") + std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

std::string random_hex(std::size_t digits) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::vector<std::byte> bytes(digits);
  draw_random(bytes);
  std::string text;
  for (const std::byte byte : bytes) text += kDigits[std::to_integer<unsigned>(byte) & 15U];
  return text;
}

namespace {

constexpr int kRandomBits = 28;
constexpr std::size_t kRandomDigits = kRandomBits / 4;
constexpr std::size_t kLongestName = 64;

bool is_letter_or_digit(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

std::int64_t draw_job_number() {
  const auto random = std::stoll(random_hex(kRandomDigits), nullptr, 16);
  return static_cast<std::int64_t>(std::time(nullptr)) << kRandomBits | random;
}

std::string make_job_name(std::int64_t number) {
  const auto time = static_cast<std::time_t>(number >> kRandomBits);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S-", &parts);
  std::array<char, kRandomDigits + 1> digits{};
  std::snprintf(digits.data(), digits.size(), "%0*x", static_cast<int>(kRandomDigits),
                static_cast<unsigned>(number & ((1 << kRandomBits) - 1)));
  return std::string(text.data()) + digits.data();
}

bool is_job_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && is_letter_or_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_';
         });
}

std::string flight_recorder_base(const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  std::error_code error;  // TMPDIR may be no folder
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  return (error ? "/tmp" : temporary) / ("horovod_cpp-" + std::to_string(geteuid()));
}

std::string flight_recorder_file(Rank rank) {
  return "flight_recorder.rank" + std::to_string(rank) + ".json";
}

}  // namespace hvd::engine
