#include "core/config/loss_mark.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "core/system/host.h"

namespace hvd {
namespace {

constexpr std::size_t kTokenDigits = 32;

[[noreturn]] void fail(const char* call) {
  throw InternalError(std::string("cannot make a memory file: ") + call + ": " +
                      std::strerror(errno));
}

}  // namespace

LossMark::LossMark() : file_(memfd_create("hvdrun loss mark", MFD_CLOEXEC)) {
  if (!file_) fail("memfd_create");
  token_ = engine::random_hex(kTokenDigits);
  const std::string content = token_ + '0';
  const ssize_t written = pwrite(file_.get(), content.data(), content.size(), 0);
  if (written != static_cast<ssize_t>(content.size())) fail("write");
}

std::string LossMark::place() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_.get()) + " " + token_;
}

bool LossMark::is_set() const {
  char state = '0';
  return pread(file_.get(), &state, 1, static_cast<off_t>(token_.size())) == 1 && state == '1';
}

LossReporter::LossReporter() noexcept {
  try {
    if (has_own_world()) return;
    place_ = environment(kLossMarkVariable).value_or("");
  } catch (const std::exception&) {
    return;  // out of memory: hvdrun then goes by the time alone
  }
  write('0');
}

void LossReporter::write(char state) const noexcept {
  const std::size_t blank = place_.find(' ');
  if (blank == std::string::npos) return;
  std::array<char, 256> path{};
  std::array<char, kTokenDigits> found{};
  const std::string_view token = std::string_view(place_).substr(blank + 1);
  if (blank >= path.size() || token.size() != found.size()) return;
  place_.copy(path.data(), blank);
  const UniqueFd file(open(path.data(), O_RDWR | O_CLOEXEC));
  // In another container the same path is another file: only ours has the token.
  const ssize_t got = pread(file.get(), found.data(), found.size(), 0);
  if (got != static_cast<ssize_t>(found.size())) return;
  if (std::string_view(found.data(), found.size()) != token) return;
  // Without success hvdrun goes by the time alone.
  [[maybe_unused]] const ssize_t written =
      pwrite(file.get(), &state, 1, static_cast<off_t>(token.size()));
}

}  // namespace hvd
