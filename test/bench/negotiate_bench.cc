// A cached step of N tensors through core/negotiate alone: every rank submits N known names, the
// announcements go up, the decision comes down, every rank gets its batches. Messages are handed
// over in memory; the time is divided by the number of ranks, and so is the number of allocations.
// Target: 200 tensors in under 20 us, and none allocates.

#include <benchmark/benchmark.h>

#include <deque>
#include <string>
#include <vector>

#include "core/negotiate/rank_protocol.h"
#include "test/bench/negotiate_allocations.h"
#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

std::vector<Request> gradients(int count) {
  std::vector<Request> requests(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    Request& request = requests[static_cast<std::size_t>(i)];
    request.name = "model.layers." + std::to_string(i) + ".weight";
    request.shapes = {{64, 3, 3, 3}};
  }
  return requests;
}

class Job {
 public:
  explicit Job(const std::vector<Rank>& parents) {
    for (const Tree& tree : test::trees_of(parents)) ranks_.emplace_back(tree, settings());
  }

  // Returns how many tensors ran on rank 0.
  std::size_t step(const std::vector<Request>& requests) {
    for (RankProtocol& rank : ranks_) {
      Ticket ticket = 0;
      for (const Request& request : requests) rank.submit(ticket++, request);
    }
    std::size_t ran = 0;
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t r = ranks_.size(); r-- > 0;)
        moved = work(static_cast<Rank>(r), ran) || moved;
    }
    return ran;
  }

 private:
  static NegotiationSettings settings() {
    NegotiationSettings settings;
    settings.fusion_threshold = 1 << 20;
    return settings;
  }

  bool work(Rank r, std::size_t& ran) {
    RankProtocol& rank = ranks_[static_cast<std::size_t>(r)];
    bool moved = false;
    while (auto message = rank.next_message()) {
      ranks_[static_cast<std::size_t>(message->to)].receive(r, message->bytes);
      rank.reuse(std::move(*message));
      moved = true;
    }
    while (auto effect = rank.next_effect()) {
      moved = true;
      auto* batch = std::get_if<RunBatch>(&*effect);
      if (batch == nullptr) continue;
      if (r == 0) ran += batch->members.size();
      rank.finished(batch->number);
      rank.reuse(std::move(*batch));
    }
    return moved;
  }

  std::deque<RankProtocol> ranks_;
};

void cached_step(benchmark::State& state, const std::vector<Rank>& parents) {
  const std::vector<Request> requests = gradients(static_cast<int>(state.range(0)));
  Job job(parents);
  for (int warm_up = 0; warm_up < 3; ++warm_up) job.step(requests);  // the slots, the storage
  const std::size_t before = bench::allocations();
  for (auto _ : state) {
    if (job.step(requests) != requests.size()) state.SkipWithError("a tensor did not run");
  }
  const std::size_t allocated = bench::allocations() - before;
  const auto ranks = static_cast<double>(parents.size());
  state.counters["us_per_rank"] = benchmark::Counter(
      ranks * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["allocations"] = benchmark::Counter(static_cast<double>(allocated) / ranks,
                                                     benchmark::Counter::kAvgIterations);
}

BENCHMARK_CAPTURE(cached_step, two_ranks, {0, 0})->Arg(1)->Arg(200)->Arg(1000);
BENCHMARK_CAPTURE(cached_step, eight_ranks, {0, 0, 0, 0, 0, 0, 0, 0})->Arg(200);
BENCHMARK_CAPTURE(cached_step, chain_of_four, {0, 0, 1, 2})->Arg(200);

}  // namespace
}  // namespace hvd::engine
