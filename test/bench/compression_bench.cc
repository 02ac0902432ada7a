// What the lossy wire formats cost and when they pay (ops/host/wire.h). First the speed of one core
// at encoding, reducing and decoding f32 tensors; then, for links of several speeds, how long an
// all-reduce takes with and without each format.
//
// The estimate is a model fed with the speeds measured before it: N ranks on N hosts reduce a range
// each and gather the results, so that every rank sends and receives 2 (N - 1) / N of its encoded
// tensor; encoding, reducing N ranges, and decoding come before, between and after, not overlapped
// with the link (overlap favours the formats). Uncompressed elements are added, not encoded.
// "shared memory" moves bytes at the speed at which a core of this machine copies them.
//
//   build/cpu/test/bench/compression_bench [RANKS]        2 to 16, default 4

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ops/host/reduce.h"
#include "ops/host/wire.h"

namespace hvd::engine {
namespace {

constexpr WireFormat kFormats[] = {WireFormat::kF16, WireFormat::kBF16, WireFormat::kInt8};
constexpr int kRepeats = 7;

// Of this thread's CPU, so that a busy machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Action>
double median_seconds(const Action& action) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const double begin = cpu_seconds();
    action();
    seconds.push_back(cpu_seconds() - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRepeats / 2, seconds.end());
  return seconds[kRepeats / 2];
}

// Seconds that one rank's core is busy with a whole tensor in one format.
struct Cost {
  std::size_t wire_bytes = 0;
  double encode = 0;
  double encode_with_residual = 0;
  double reduce = 0;  // one range of every rank: as many elements as the tensor has
  double decode = 0;

  double total() const { return encode + reduce + decode; }
};

class Workload {
 public:
  Workload(std::int64_t numel, std::size_t ranks)
      : numel_(numel), ranks_(ranks), values_(size()), residual_(size()), out_(size()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : values_) value = normal(random);
  }

  Cost cost(WireFormat format) {
    Cost cost{.wire_bytes = host::wire_bytes(format, numel_)};
    std::vector<std::byte> encoded(cost.wire_bytes);
    const auto encode = [&](float* residual) {
      host::encode(format, DType::kF32, values_.data(), 1.0, residual, numel_, encoded.data());
    };
    cost.encode_with_residual = median_seconds([&] { encode(residual_.data()); });
    cost.encode = median_seconds([&] { encode(nullptr); });
    const std::int64_t range = range_numel();
    std::vector<std::byte> sum(host::wire_bytes(format, range));
    const std::vector<const void*> inputs = ranges(encoded.data(), sum.size());
    cost.reduce =
        median_seconds([&] { host::reduce_encoded(format, inputs, range, 0.25, sum.data()); });
    cost.decode = median_seconds(
        [&] { host::decode(format, encoded.data(), DType::kF32, out_.data(), numel_); });
    return cost;
  }

  Cost uncompressed() {
    const std::int64_t range = range_numel();
    const auto bytes = static_cast<std::size_t>(range) * sizeof(float);
    const std::vector<const void*> inputs = ranges(values_.data(), bytes);
    Cost cost{.wire_bytes = size() * sizeof(float)};
    cost.reduce = median_seconds(
        [&] { host::reduce(DType::kF32, ReduceOp::kSum, inputs, out_.data(), range, 1.0, 0.25); });
    return cost;
  }

  double copy_bytes_per_second() {
    const std::size_t bytes = size() * sizeof(float);
    return static_cast<double>(bytes) /
           median_seconds([&] { std::memcpy(out_.data(), values_.data(), bytes); });
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(numel_); }

  // Whole blocks, so that ranges are aligned in every format.
  std::int64_t range_numel() const {
    const auto ranks = static_cast<std::int64_t>(ranks_);
    return std::max(host::kWireBlock, numel_ / ranks / host::kWireBlock * host::kWireBlock);
  }
  std::vector<const void*> ranges(const void* whole, std::size_t bytes) const {
    std::vector<const void*> all;
    for (std::size_t r = 0; r < ranks_; ++r) {
      all.push_back(static_cast<const std::byte*>(whole) + r * bytes);
    }
    return all;
  }

  std::int64_t numel_;
  std::size_t ranks_;
  std::vector<float> values_;
  std::vector<float> residual_;
  std::vector<float> out_;
};

void print_speeds(Workload& work, std::int64_t numel) {
  std::printf("GB/s of f32 elements, one core, %lld elements\n", static_cast<long long>(numel));
  std::printf("%8s %10s %16s %10s %10s %8s\n", "format", "encode", "encode+residual", "reduce",
              "decode", "smaller");
  const double gigabytes = static_cast<double>(numel) * sizeof(float) * 1e-9;
  for (const WireFormat format : kFormats) {
    const Cost cost = work.cost(format);
    std::printf("%8s %10.1f %16.1f %10.1f %10.1f %7.2fx\n", std::string(name_of(format)).c_str(),
                gigabytes / cost.encode, gigabytes / cost.encode_with_residual,
                gigabytes / cost.reduce, gigabytes / cost.decode,
                gigabytes * 1e9 / static_cast<double>(cost.wire_bytes));
  }
}

struct Link {
  const char* name;
  double bytes_per_second;
  double latency;  // seconds of each of the two exchanges
};

double all_reduce_seconds(const Cost& cost, const Link& link, std::size_t ranks) {
  const double share = 2.0 * static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return cost.total() + 2 * link.latency +
         share * static_cast<double>(cost.wire_bytes) / link.bytes_per_second;
}

void print_estimate(std::size_t ranks) {
  std::printf("\nAn all-reduce of f32 over %zu ranks: milliseconds (times faster than none)\n",
              ranks);
  std::printf("%14s %9s %9s", "link", "tensor", "none");
  for (const WireFormat format : kFormats)
    std::printf(" %17s", std::string(name_of(format)).c_str());
  std::printf("  pays\n");
  for (const std::int64_t kib : {16, 256, 4096, 65536}) {
    Workload work(kib * 256, ranks);
    const Cost plain = work.uncompressed();
    Cost costs[std::size(kFormats)];
    std::transform(std::begin(kFormats), std::end(kFormats), costs,
                   [&](WireFormat format) { return work.cost(format); });
    const Link links[] = {{"1 Gbit/s", 1e9 / 8, 20e-6},
                          {"10 Gbit/s", 1e10 / 8, 10e-6},
                          {"25 Gbit/s", 2.5e10 / 8, 5e-6},
                          {"100 Gbit/s", 1e11 / 8, 3e-6},
                          {"shared memory", work.copy_bytes_per_second(), 1e-6}};
    for (const Link& link : links) {
      const double none = all_reduce_seconds(plain, link, ranks);
      std::printf("%14s %5lld KiB %9.3f", link.name, static_cast<long long>(kib), none * 1e3);
      const char* best = "no";
      double least = none;
      for (std::size_t i = 0; i < std::size(kFormats); ++i) {
        const double seconds = all_reduce_seconds(costs[i], link, ranks);
        std::printf(" %9.3f (%4.2fx)", seconds * 1e3, none / seconds);
        if (seconds < least) {
          least = seconds;
          best = name_of(kFormats[i]).data();
        }
      }
      std::printf("  %s\n", best);
    }
  }
}

}  // namespace
}  // namespace hvd::engine

int main(int argc, char** argv) {
  const long ranks = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 4;
  if (ranks < 2 || ranks > 16) {
    std::fprintf(stderr, "compression_bench [RANKS]: 2 to 16 ranks, got %s\n", argv[1]);
    return 2;
  }
  for (const std::int64_t numel : {std::int64_t{1} << 18, std::int64_t{1} << 24}) {
    hvd::engine::Workload work(numel, static_cast<std::size_t>(ranks));
    hvd::engine::print_speeds(work, numel);
  }
  hvd::engine::print_estimate(static_cast<std::size_t>(ranks));
  return 0;
}
