// What a machine's cores allow, without an engine: the bare loops under the rows of engine_bench
// that are about fixed costs.
//
//   build/cpu/test/bench/exchange_bench [RANKS]
//
// exchange: two processes, each on a core, that add up their arrays: copy to memory of both, one
// flag, read the other's. Through the caches and past them (see ops/host/streaming_copy.h). Core
// time of the copy, and of the sum, apart. barrier: RANKS processes (8) that meet three times, as
// often as an all-reduce does (announced, decided, written), and give the core away while they
// wait.

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "ops/host/reduce.h"
#include "ops/host/streaming_copy.h"

namespace hvd::engine::bench {
namespace {

constexpr int kRounds = 2000;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr int kMostRanks = 64;
constexpr std::size_t kSizes[] = {1024, 8192, 65536, 262144, 1048576};

struct alignas(128) Count {
  std::atomic<int> value{0};
};

// Memory of all processes; zeroes are its initial state.
struct Shared {
  Count written[2];
  Count arrived;
  double results[kMostRanks][3];  // us
  alignas(4096) std::byte slots[2][2][kMostBytes];
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double us_since(TimePoint begin) {
  return 1e6 * to_seconds(Clock::now() - begin);
}

void bind(int rank, int ranks) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(rank * cores / ranks), &set);
  sched_setaffinity(0, sizeof set, &set);
}

void meet(Count& count, int all) {
  count.value.fetch_add(1);
  while (count.value.load() < all) std::this_thread::yield();
}

void copy(std::byte* to, const std::vector<float>& from, bool past_the_caches) {
  const std::size_t bytes = from.size() * sizeof(float);
  host::StreamingCopy::measured(bytes, past_the_caches ? std::chrono::hours(1) : Duration::zero());
  const host::StreamingCopy streaming_copy(bytes);
  streaming_copy.copy(to, from.data(), bytes);
}

void exchange(Shared& shared, int rank, std::size_t bytes, bool past_the_caches) {
  std::vector<float> mine(bytes / sizeof(float));
  std::vector<double> times[3];
  const auto other = static_cast<std::size_t>(1 - rank);
  for (int round = 1; round <= kRounds; ++round) {
    std::fill(mine.begin(), mine.end(), static_cast<float>(rank + 1));
    meet(shared.arrived, 2 * round);
    const auto slot = static_cast<std::size_t>(round % 2);
    const TimePoint begin = Clock::now();
    copy(shared.slots[rank][slot], mine, past_the_caches);
    shared.written[rank].value.store(round);
    const double copied = us_since(begin);
    while (shared.written[other].value.load() < round) {
    }
    const TimePoint read = Clock::now();
    const void* const inputs[] = {mine.data(), shared.slots[other][slot]};
    host::reduce(DType::kF32, ReduceOp::kSum, inputs, mine.data(),
                 static_cast<std::int64_t>(mine.size()), 1.0, 1.0);
    times[2].push_back(us_since(read));
    times[1].push_back(copied);
    times[0].push_back(us_since(begin));
    if (std::ranges::count(mine, 3.0F) != static_cast<std::ptrdiff_t>(mine.size())) std::abort();
  }
  for (std::size_t i = 0; i < 3; ++i) shared.results[rank][i] = median(times[i]);
}

void barrier(Shared& shared, int rank, int ranks) {
  std::vector<double> times;
  int met = 0;
  for (int round = 0; round < kRounds; ++round) {
    meet(shared.arrived, ++met * ranks);
    const TimePoint begin = Clock::now();
    for (int i = 0; i < 3; ++i) meet(shared.arrived, ++met * ranks);
    times.push_back(us_since(begin));
  }
  shared.results[rank][0] = median(times);
}

// Runs `body(shared, rank)` in a process of its own for each rank; the longest times.
std::vector<double> run(int ranks, const std::function<void(Shared&, int)>& body) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto& shared = *static_cast<Shared*>(memory);
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    bind(rank, ranks);
    body(shared, rank);
    _exit(0);
  }
  bool failed = false;
  for (int status = 0; wait(&status) > 0;) failed = failed || status != 0;
  if (failed) std::abort();
  std::vector<double> longest(3);
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < 3; ++i) {
      longest[i] = std::max(longest[i], shared.results[rank][i]);
    }
  }
  munmap(memory, sizeof(Shared));
  return longest;
}

void all(int ranks) {
  std::printf("%9s %16s %9s %9s %9s   us\n", "bytes", "", "all", "copy", "sum");
  for (const std::size_t bytes : kSizes) {
    for (const bool past : {false, true}) {
      const auto times =
          run(2, [&](Shared& shared, int rank) { exchange(shared, rank, bytes, past); });
      std::printf("%9zu %16s %9.2f %9.2f %9.2f\n", bytes,
                  past ? "past the caches" : "through caches", times[0], times[1], times[2]);
    }
  }
  const auto times = run(ranks, [&](Shared& shared, int rank) { barrier(shared, rank, ranks); });
  std::printf("%d processes meet three times: %.2f us\n", ranks, times[0]);
}

}  // namespace
}  // namespace hvd::engine::bench

int main(int argc, char** argv) {
  hvd::engine::bench::all(
      argc > 1 ? std::clamp(std::atoi(argv[1]), 2, hvd::engine::bench::kMostRanks) : 8);
  return 0;
}
