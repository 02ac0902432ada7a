#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/config/config.h"
#include "ops/connect/backends.h"
#include "runner/about.h"
#include "runner/agent.h"
#include "runner/job.h"
#include "runner/process.h"

namespace hvd::runner {
namespace {

constexpr int kUsage = 2;

std::string own_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) throw InternalError("cannot read /proc/self/exe");
  return {path.data(), static_cast<std::size_t>(length)};
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

bool mpi_is_usable() {
  for (const BackendInfo& backend : backends()) {
    if (backend.name == "mpi") return backend.usable;
  }
  return false;
}

LaunchContext look_around() {
  LaunchContext context;
  context.mpirun = find_in_path("mpirun", environment("PATH").value_or("/usr/bin:/bin"));
  context.has_mpi = mpi_is_usable();
  context.hvdrun = own_path();
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  context.hostname = name.data();
  context.cores = usable_cores();
  context.is_root = geteuid() == 0;
  context.environment = current_environment();
  return context;
}

// Started with a closed standard stream, we would take a pipe of ours for it.
void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) {
      throw InternalError("cannot open /dev/null");
    }
  }
}

// A connection and perhaps two files a rank, and a few more.
void raise_file_limit(int ranks) {
  const rlim_t needed = 3 * static_cast<rlim_t>(ranks) + 64;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

int run(std::span<const std::string> arguments) {
  if (arguments.size() > 2 && arguments[0] == "--agent" && arguments[1] == "--") {
    return run_agent(arguments.subspan(2));
  }
  Options options;
  try {
    options = parse_options(arguments, current_environment());
  } catch (const InvalidArgumentError& error) {
    std::fprintf(stderr, "hvdrun: %s\n", error.what());
    return kUsage;
  }
  if (const std::string text = requested_text(options); !text.empty()) {
    if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
    throw InternalError(std::string("cannot write standard output: ") + std::strerror(errno));
  }
  raise_file_limit(options.np);
  return run_job(options, look_around());
}

}  // namespace
}  // namespace hvd::runner

int main(int argc, char** argv) {
  try {
    hvd::runner::open_standard_streams();
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    return hvd::runner::run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hvdrun: %s\n", error.what());
    return 1;
  }
}
