// A rank of a job on several hosts, started by two_hosts.sh. Its standard output is FILE.rank, as
// a launcher mixes the lines of ranks and loses their last output.
//   two_hosts_job FILE results    says where it is and what the collectives gave
//   two_hosts_job FILE lose RANK  reduces until it is told whom it lost; RANK kills itself
//   two_hosts_job FILE lose -1    the same while the link goes down
//   two_hosts_job FILE agree      says why the ranks cannot work together
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/base/status.h"
#include "core/config/launch_info.h"
#include "core/runtime/runtime.h"
#include "core/system/host.h"
#include "ops/connect/backends.h"
#include "test/core/runtime/submissions.h"

namespace hvd::engine::test {
namespace {

// Of the machine that is both hosts.
double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t fold(std::uint64_t hash, const void* data, std::size_t bytes) {
  const auto* const each = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ each[i]) * 0x100000001b3;
  return hash;
}

[[noreturn]] void wrong(const std::string& what) {
  std::printf("WRONG %s\n", what.c_str());
  std::fflush(stdout);
  _exit(1);
}

// Sums of small integers, exact in any order, of few and many elements; and gathered rows.
std::uint64_t hash_of_results(Runtime& runtime) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const int rank = runtime.topology().rank;
  const int size = runtime.topology().size;
  for (const std::size_t numel : {1u, 1'000u, 70'001u, 600'000u}) {
    const auto values = shared(std::vector<float>(numel));
    for (std::size_t i = 0; i < numel; ++i) {
      (*values)[i] = static_cast<float>(static_cast<int>(i % 97) * (rank + 1));
    }
    runtime.submit(allreduce("sum" + std::to_string(numel), values)).wait();
    for (std::size_t i = 0; i < numel; ++i) {
      const int expected = static_cast<int>(i % 97) * size * (size + 1) / 2;
      if ((*values)[i] == static_cast<float>(expected)) continue;
      wrong("element " + std::to_string(i) + " of " + std::to_string(numel));
    }
    hash = fold(hash, values->data(), numel * sizeof(float));
  }
  constexpr std::int64_t kWidth = 1'000;
  const auto mine = shared(
      std::vector<float>(static_cast<std::size_t>(rank + 3) * kWidth, static_cast<float>(rank)));
  const Handle handle = runtime.submit(allgather("rows", mine, kWidth));
  const TensorView& all = handle.wait().results.front().gathered.view;
  const auto* place = static_cast<const float*>(all.data);
  for (int from = 0; from < size; ++from) {
    for (std::int64_t i = 0; i < (from + 3) * kWidth; ++i) {
      if (*place++ != static_cast<float>(from)) wrong("row of rank " + std::to_string(from));
    }
  }
  return fold(hash, all.data, all.bytes());
}

int print_results(Runtime& runtime, const std::string& host) {
  const Topology& here = runtime.topology();
  const std::uint64_t hash = hash_of_results(runtime);
  std::printf("RESULT rank %d of %d host %s local %d/%d cross %d/%d hash %016llx\n", here.rank,
              here.size, host.c_str(), here.local_rank, here.local_size, here.cross_rank,
              here.cross_size, static_cast<unsigned long long>(hash));
  std::fflush(stdout);
  runtime.shutdown();
  return 0;
}

int reduce_until_lost(Runtime& runtime, const std::string& host, int victim) {
  const int rank = runtime.topology().rank;
  try {
    for (int step = 0;; ++step) {
      const auto values = shared(std::vector<float>(10'000, 1.0f));
      runtime.submit(allreduce("gradient", values)).wait();
      if (step == 20) {
        std::printf("RUNNING rank %d\n", rank);
        std::fflush(stdout);
      }
      if (step == 50 && rank == victim) {
        std::printf("DIED rank %d at %.3f\n", rank, now());
        std::fflush(stdout);
        raise(SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  } catch (const HorovodInternalError& error) {
    std::printf("TOLD rank %d host %s at %.3f: %s\n", rank, host.c_str(), now(), error.what());
    std::fflush(stdout);
    _exit(0);
  }
}

int print_refusal() {
  try {
    connect(read_config());
  } catch (const InvalidArgumentError& error) {
    std::printf("REFUSED host %s: %s\n", host_name().c_str(), error.what());
    return 0;
  }
  wrong("connected");
}

}  // namespace
}  // namespace hvd::engine::test

int main(int argc, char** argv) {
  using namespace hvd;
  using namespace hvd::engine;
  const std::string what = argc < 3 ? "" : argv[2];
  if (!(what == "results" || what == "agree" || (what == "lose" && argc == 4))) {
    test::wrong("usage: two_hosts_job FILE results | lose RANK | agree");
  }
  const std::string path =
      argv[1] + std::string(".") + std::to_string(read_launch_info().rank.value_or(0));
  if (std::freopen(path.c_str(), "w", stdout) == nullptr) test::wrong("cannot write " + path);
  if (what == "agree") return test::print_refusal();
  Ports ports = connect(read_config());
  const std::string host = ports.control->host_name(ports.control->topology().rank);
  Runtime runtime(std::move(ports.control), std::move(ports.collectives), ports.config);
  if (what == "lose") return test::reduce_until_lost(runtime, host, std::atoi(argv[3]));
  return test::print_results(runtime, host);
}
