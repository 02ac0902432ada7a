// The engine against MPI in the same processes. Started by mpirun; test/bench/engine.py starts it,
// adds what other programs measure and makes the tables. test/bench/README.md says how to read
// them.
//
//   mpirun -np 2 build/cpu/test/bench/engine_bench SECTION SECONDS
//
// SECTION is blocking, async, sets, crowd, idle, waiting, late or memory; SECONDS bounds the time
// of each case. Rank 0 prints one JSON object a line.

#include <mpi.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "core/base/clock.h"
#include "horovod_cpp/horovod.h"
#include "test/bench/engine_ways.h"

namespace hvd::bench {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr int kMostRuns = 2000;
constexpr int kWarmUps = 3;

double seconds_since(TimePoint begin) {
  return to_seconds(Clock::now() - begin);
}

// Rank 0's answer, on every rank.
bool agree(bool answer) {
  int value = answer ? 1 : 0;
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return value != 0;
}

double quantile(std::vector<double> values, double q) {
  const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// Of each run, the time of the rank that took longest; on rank 0.
std::vector<double> slowest(std::vector<double> seconds) {
  std::vector<double> all(seconds.size());
  MPI_Reduce(seconds.data(), all.data(), static_cast<int>(seconds.size()), MPI_DOUBLE, MPI_MAX, 0,
             MPI_COMM_WORLD);
  return all;
}

struct Case {
  const char* section;
  std::string name;
  GradientSet sizes;
};

// Writes every tensor, reduces, reads and checks every element. Returns the seconds of the
// reduction.
double run_once(Way& way, std::size_t tensors, int round) {
  const int ranks = size();
  const auto mine = static_cast<float>(rank() + 1 + round % 4);
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2 + ranks * (round % 4));
  for (std::size_t i = 0; i < tensors; ++i) std::ranges::fill(way.tensor(i), mine);
  MPI_Barrier(MPI_COMM_WORLD);
  const TimePoint begin = Clock::now();
  way.reduce();
  const double seconds = seconds_since(begin);
  std::ptrdiff_t wrong = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto tensor = way.tensor(i);
    wrong += std::ranges::count_if(tensor, [sum](float value) { return value != sum; });
  }
  if (wrong != 0) {
    std::fprintf(stderr, "rank %d: %td elements are not %g\n", rank(), wrong, double{sum});
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return seconds;
}

void print(const Case& one, const char* way, const std::vector<double>& seconds) {
  if (rank() != 0) return;
  std::printf(
      "{\"section\": \"%s\", \"case\": \"%s\", \"way\": \"%s\", \"ranks\": %d, "
      "\"bytes\": %lld, \"tensors\": %zu, \"median_us\": %.3f, \"p90_us\": %.3f, "
      "\"runs\": %zu}\n",
      one.section, one.name.c_str(), way, size(), static_cast<long long>(numel(one.sizes) * 4),
      one.sizes.size(), 1e6 * quantile(seconds, 0.5), 1e6 * quantile(seconds, 0.9), seconds.size());
  std::fflush(stdout);
}

// All ways in turn, again and again.
void compare(const Case& one, double limit) {
  std::vector<std::unique_ptr<Way>> ways;
  for (const WayInfo& info : all_ways()) ways.push_back(info.make(one.sizes));
  std::vector<std::vector<double>> seconds(ways.size());
  TimePoint begin{};
  for (int round = -kWarmUps; round < kMostRuns; ++round) {
    if (round == 0) begin = Clock::now();
    if (round > 4 && !agree(seconds_since(begin) < limit)) break;
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const double once = run_once(*ways[w], one.sizes.size(), round + kWarmUps);
      if (round >= 0) seconds[w].push_back(once);
    }
  }
  for (std::size_t w = 0; w < ways.size(); ++w) {
    print(one, all_ways()[w].name, slowest(std::move(seconds[w])));
  }
}

constexpr std::int64_t kSizes[] = {8,          64,   kKiB,     8 * kKiB,  64 * kKiB,
                                   256 * kKiB, kMiB, 4 * kMiB, 16 * kMiB, 64 * kMiB};

void blocking(double limit) {
  for (const std::int64_t bytes : kSizes) {
    compare({"blocking", std::to_string(bytes), {bytes / 4}}, limit);
  }
}

// Many in flight, 64 MiB at most.
void async(double limit) {
  for (const std::int64_t bytes : kSizes) {
    const std::int64_t count = std::min<std::int64_t>(64, 64 * kMiB / bytes);
    if (count < 2) continue;
    const GradientSet sizes(static_cast<std::size_t>(count), bytes / 4);
    compare({"async", std::to_string(bytes), sizes}, limit);
  }
}

void sets(double limit) {
  compare({"sets", "ResNet-50", resnet50()}, 2 * limit);
  compare({"sets", "VGG-11", vgg11()}, 2 * limit);
  compare({"sets", "1,000 x 1,024", thousand_small()}, 2 * limit);
}

// For more ranks than cores.
void crowd(double limit) {
  compare({"crowd", std::to_string(kKiB), {kKiB / 4}}, limit);
  compare({"crowd", std::to_string(kMiB), {kMiB / 4}}, limit);
  compare({"crowd", "VGG-11", vgg11()}, limit);
  compare({"crowd", "1,000 x 1,024", thousand_small()}, limit);
}

void print(const char* section, const char* name, double value) {
  if (rank() != 0) return;
  std::printf("{\"section\": \"%s\", \"case\": \"%s\", \"ranks\": %d, \"value\": %.6g}\n", section,
              name, size(), value);
  std::fflush(stdout);
}

// Work that needs a core and no memory.
void compute(std::int64_t turns) {
  std::uint64_t state = 1;
  for (std::int64_t i = 0; i < turns; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
  }
  volatile std::uint64_t sink = state;
  static_cast<void>(sink);
}

// Turns of compute() that take this long, the same on every rank.
std::int64_t turns_of(double seconds) {
  constexpr std::int64_t kTrial = 10'000'000;
  compute(kTrial);
  const TimePoint begin = Clock::now();
  compute(kTrial);
  auto turns =
      static_cast<std::int64_t>(static_cast<double>(kTrial) * seconds / seconds_since(begin));
  MPI_Bcast(&turns, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  return turns;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double timed(const std::function<void()>& action) {
  const TimePoint begin = Clock::now();
  action();
  return seconds_since(begin);
}

// What an engine costs that nobody uses: CPU of the process, and what it takes from a computation
// on all ranks at once.
void idle(double limit) {
  const double cpu = cpu_seconds();
  const double wall = timed([limit] {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(2.0, 4 * limit)));
  });
  const double fraction = slowest({(cpu_seconds() - cpu) / wall}).front();
  print("idle", "fraction of a core", fraction);

  const std::int64_t turns = turns_of(0.05);
  std::vector<double> seconds[2];
  const TimePoint begin = Clock::now();
  while (seconds[0].size() < 5 || agree(seconds_since(begin) < 8 * limit)) {
    for (const bool initialised : {true, false}) {
      if (!initialised) shutdown();
      MPI_Barrier(MPI_COMM_WORLD);
      seconds[initialised ? 1 : 0].push_back(timed([turns] { compute(turns); }));
      MPI_Barrier(MPI_COMM_WORLD);
    }
    init();
  }
  const double loss = slowest({quantile(seconds[1], 0.5) / quantile(seconds[0], 0.5) - 1}).front();
  print("idle", "loss of a computation", loss);
}

// Rank 0 waits for rank 1, which sleeps: what its threads take from who else uses its core.
void waiting(double limit) {
  const Tensor tensor = Tensor::zeros({256});
  for (int i = 0; i < 100; ++i) allreduce_(tensor, {.op = ReduceOp::kSum, .name = "waited for"});
  if (rank() != 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(2.0, 4 * limit)));
  }
  const double cpu = cpu_seconds();
  const double wall =
      timed([&] { allreduce_(tensor, {.op = ReduceOp::kSum, .name = "waited for"}); });
  if (rank() == 0) print("waiting", "fraction of a core", (cpu_seconds() - cpu) / wall);
}

// Rank 1 comes 5 ms late, again and again, while rank 0 computes: what does rank 0 lose?
void late(double limit) {
  const std::int64_t turns = turns_of(0.01);
  const Tensor tensor = Tensor::zeros({256});
  std::vector<double> seconds[2];
  const TimePoint begin = Clock::now();
  while (seconds[0].size() < 10 || agree(seconds_since(begin) < 8 * limit)) {
    for (const bool communicates : {true, false}) {
      CollectiveHandle handle;
      const auto submit = [&] {
        if (communicates) handle = allreduce_async_(tensor, {.op = ReduceOp::kSum, .name = "late"});
      };
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank() == 0) {
        seconds[communicates ? 1 : 0].push_back(timed([&] {
          submit();
          compute(turns);
        }));
      } else {
        seconds[communicates ? 1 : 0].push_back(0);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        submit();
      }
      handle.synchronize();
    }
  }
  if (rank() == 0) print("late", "loss", quantile(seconds[1], 0.5) / quantile(seconds[0], 0.5) - 1);
}

// Bytes of cache lines a second that a core fills from memory while all ranks do: a += b brings
// both arrays in.
void memory(double limit) {
  constexpr std::size_t kCount = 64 * kMiB / sizeof(float);
  std::vector<float> sum(kCount, 1);
  const std::vector<float> other(kCount, 2);
  std::vector<double> seconds;
  const TimePoint begin = Clock::now();
  while (seconds.size() < 5 || agree(seconds_since(begin) < limit)) {
    MPI_Barrier(MPI_COMM_WORLD);
    seconds.push_back(timed([&] {
      for (std::size_t i = 0; i < kCount; ++i) sum[i] += other[i];
    }));
  }
  print("memory", "bytes a second",
        2.0 * kCount * sizeof(float) / quantile(slowest(std::move(seconds)), 0.5));
}

struct Section {
  const char* name;
  void (*run)(double limit);
};

constexpr Section kSections[] = {{"blocking", blocking}, {"async", async},  {"sets", sets},
                                 {"crowd", crowd},       {"idle", idle},    {"late", late},
                                 {"waiting", waiting},   {"memory", memory}};

}  // namespace
}  // namespace hvd::bench

int main(int argc, char** argv) {
  using hvd::bench::Section;
  const auto* section = std::find_if(
      std::begin(hvd::bench::kSections), std::end(hvd::bench::kSections),
      [&](const Section& s) { return argc == 3 && std::strcmp(s.name, argv[1]) == 0; });
  if (section == std::end(hvd::bench::kSections)) {
    std::fprintf(stderr,
                 "engine_bench blocking|async|sets|crowd|idle|waiting|late|memory SECONDS\n");
    return 2;
  }
  int granted = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted);
  hvd::init();
  if (hvd::rank() == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(version, &length);
    *std::find(version, version + length, ',') = '\0';
    std::printf("{\"mpi\": \"%s\"}\n", version);
  }
  section->run(std::strtod(argv[2], nullptr));
  hvd::shutdown();
  MPI_Finalize();
  return 0;
}
