#include "core/system/job_name.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/system/random_bytes.h"

namespace hvd {
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

}  // namespace hvd
