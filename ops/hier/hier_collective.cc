#include "ops/hier/hier_collective.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/status.h"
#include "ops/host/arguments.h"

namespace hvd::engine {

HierLayout make_hier_layout(Rank rank, std::span<const int> host_of) {
  HierLayout layout;
  std::map<int, std::size_t> place_of;  // by number of the host
  for (std::size_t r = 0; r < host_of.size(); ++r) {
    const auto [place, is_new] = place_of.try_emplace(host_of[r], layout.hosts.size());
    if (is_new) layout.hosts.emplace_back();
    std::vector<Rank>& ranks = layout.hosts[place->second];
    if (static_cast<Rank>(r) == rank) {
      layout.host = place->second;
      layout.local = ranks.size();
    }
    ranks.push_back(static_cast<Rank>(r));
  }
  return layout;
}

bool HierLayout::even() const {
  return std::all_of(hosts.begin(), hosts.end(),
                     [this](const auto& ranks) { return ranks.size() == hosts[0].size(); });
}

bool HierLayout::in_blocks() const {
  return std::all_of(hosts.begin(), hosts.end(), [](const std::vector<Rank>& ranks) {
    return ranks.back() - ranks.front() + 1 == static_cast<Rank>(ranks.size());
  });
}

std::vector<Rank> HierLayout::column() const {
  if (!even() && local != 0) return {};
  std::vector<Rank> ranks;
  for (const std::vector<Rank>& each : hosts) ranks.push_back(each[local]);
  std::sort(ranks.begin(), ranks.end());  // hosts are in the order of their first ranks alone
  return ranks;
}

bool HierOrder::is_next(std::uint64_t place) const {
  if (broken_) throw AbortedError("an operation before this one was given up halfway");
  return place == started_;
}

void HierOperation::add_stage(const HierOrderPtr& order, Start start) {
  if (order == nullptr) {
    running_ = start();
    return;
  }
  stages_.push_back({order, order->join(), std::move(start)});
}

std::byte* HierOperation::scratch(std::size_t bytes) {
  scratch_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return scratch_.back().get();
}

HierOperation::~HierOperation() {
  HierOperation::withdraw();
}

bool HierOperation::withdraw() noexcept {
  for (; next_ < stages_.size(); ++next_) stages_[next_].order->break_off();
  return running_ == nullptr || running_->withdraw();
}

bool HierOperation::advance() {
  while (true) {
    if (running_ != nullptr) {
      if (!running_->advance()) return false;
      const OperationStats stage = running_->stats();
      // What this rank brought is what the first stage took.
      if (stats_.packed_bytes == 0) stats_.packed_bytes = stage.packed_bytes;
      stats_.packing += stage.packing;
      stats_.unpacking += stage.unpacking;
      running_.reset();
    }
    if (next_ == stages_.size()) return true;
    const Stage& stage = stages_[next_];
    if (!stage.order->is_next(stage.place)) return false;
    running_ = stage.start();
    stage.order->start_next();
    ++next_;
  }
}

namespace {

// Numbers of subsets, far from those that process sets have, also where a backend can tell only
// some millions of them apart.
constexpr std::uint32_t kCrossNumber = 0x7ab3'0000;
constexpr std::uint32_t kLocalNumber = 0x7ac3'0000;
constexpr std::uint32_t kSpreadNumber = 0x7ad3'0000;

constexpr std::int64_t kPartUnit = 64;  // elements; parts begin at multiples of it

std::vector<Rank> first_ranks(std::size_t count) {
  std::vector<Rank> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TensorView part_of(const TensorView& whole, std::int64_t first, std::int64_t numel) {
  auto* const data = static_cast<std::byte*>(whole.data);
  const auto offset = static_cast<std::size_t>(first) * size_of(whole.dtype);
  return {data == nullptr ? nullptr : data + offset, numel, whole.dtype, whole.device};
}

// All slices in a row, cut into one part for each of `parts` ranks.
class Parts {
 public:
  Parts(std::span<const Slice> slices, std::size_t parts)
      : parts_(static_cast<std::int64_t>(parts)) {
    for (const Slice& slice : slices) total_ += slice.input.numel;
  }

  // Of a slice whose elements begin at `begin` in the row.
  std::vector<std::int64_t> numel_of(std::int64_t begin, std::int64_t numel) const {
    std::vector<std::int64_t> counts;
    for (std::int64_t part = 0; part < parts_; ++part) {
      const std::int64_t from = std::clamp(boundary(part), begin, begin + numel);
      counts.push_back(std::clamp(boundary(part + 1), begin, begin + numel) - from);
    }
    return counts;
  }

 private:
  std::int64_t boundary(std::int64_t part) const {
    return part == parts_ ? total_ : total_ / parts_ * part / kPartUnit * kPartUnit;
  }

  std::int64_t parts_;
  std::int64_t total_ = 0;
};

bool rounds(ReduceOp op, DType dtype) {
  const bool arithmetic = op == ReduceOp::kSum || op == ReduceOp::kProduct;
  return arithmetic && (is_floating(dtype) || is_complex(dtype));
}

}  // namespace

std::unique_ptr<Collective> HierCollective::make(std::unique_ptr<Collective> flat,
                                                 std::unique_ptr<Collective> local, Rank rank,
                                                 std::vector<int> host_of,
                                                 const HierOptions& options) {
  HierLayout layout = make_hier_layout(rank, host_of);
  if (layout.hosts.size() == host_of.size()) return flat;
  if (layout.hosts.size() == 1) return local != nullptr ? std::move(local) : std::move(flat);
  return std::unique_ptr<Collective>(new HierCollective(
      std::move(flat), std::move(local), rank, std::move(host_of), std::move(layout), options));
}

HierCollective::HierCollective(std::unique_ptr<Collective> flat, std::unique_ptr<Collective> local,
                               Rank rank, std::vector<int> host_of, HierLayout layout,
                               const HierOptions& options)
    : rank_(rank),
      host_of_(std::move(host_of)),
      layout_(std::move(layout)),
      options_(options),
      flat_(std::move(flat)),
      local_(std::move(local)) {
  if (local_ == nullptr) {
    const auto number = kLocalNumber + static_cast<std::uint32_t>(layout_.host);
    local_ = flat_->subset(number, layout_.here());
  }
  spread_ = local_->subset(kSpreadNumber, first_ranks(layout_.here().size()));
  const std::vector<Rank> column = layout_.column();
  if (column.empty()) return;
  cross_ = flat_->subset(kCrossNumber + static_cast<std::uint32_t>(layout_.local), column);
}

void HierCollective::after(const Fence& ready) {
  flat_->after(ready);
  local_->after(ready);
  if (cross_ != nullptr) cross_->after(ready);
}

// The same on all ranks.
bool HierCollective::by_host(DType dtype, const Reduction& reduction) const {
  if (!options_.all_reduce) return false;
  if (reduction.op == ReduceOp::kAdasum || reduction.wire != WireFormat::kNone) return false;
  if (!rounds(reduction.op, dtype)) return true;
  return reduction.op == ReduceOp::kSum && !options_.rank_order && dtype != DType::kF16 &&
         dtype != DType::kBF16;
}

std::unique_ptr<Operation> HierCollective::all_reduce(std::span<const Slice> slices,
                                                      const Reduction& reduction) {
  host::check_all_reduce(slices, reduction);
  if (slices.empty() || !by_host(slices.front().input.dtype, reduction)) {
    return flat_->all_reduce(slices, reduction);
  }
  return layout_.even() ? reduce_in_parts(slices, reduction) : reduce_by_leaders(slices, reduction);
}

// By host even where all are on one, or each is on its own: that changes no bit.
bool HierCollective::reduce_here(std::span<const Rank> ranks, std::span<const void* const> inputs,
                                 DType dtype, std::int64_t numel, const Reduction& reduction,
                                 void* result) const {
  if (!by_host(dtype, reduction) || !rounds(reduction.op, dtype)) {
    return flat_->reduce_here(ranks, inputs, dtype, numel, reduction, result);
  }
  std::vector<int> host_of;
  for (const Rank rank : ranks) host_of.push_back(host_of_[static_cast<std::size_t>(rank)]);
  const HierLayout layout = make_hier_layout(0, host_of);
  // Else the hosts come in another order for each part.
  if (layout.hosts.size() > 2 && layout.even() && !layout.in_blocks()) return false;
  const std::size_t bytes = static_cast<std::size_t>(numel) * size_of(dtype);
  std::vector<Bytes> sums;
  std::vector<const void*> of_hosts;
  for (const std::vector<Rank>& host : layout.hosts) {
    std::vector<const void*> here;
    for (const Rank place : host) here.push_back(inputs[static_cast<std::size_t>(place)]);
    of_hosts.push_back(sums.emplace_back(bytes).data());
    if (!flat_->reduce_here(ranks, here, dtype, numel,
                            {.op = reduction.op, .prescale = reduction.prescale},
                            sums.back().data())) {
      return false;
    }
  }
  return flat_->reduce_here(ranks, of_hosts, dtype, numel,
                            {.op = reduction.op, .postscale = reduction.postscale}, result);
}

std::unique_ptr<Operation> HierCollective::reduce_in_parts(std::span<const Slice> slices,
                                                           const Reduction& reduction) {
  const Parts parts(slices, layout_.here().size());
  std::vector<ScatterSlice> scatters;
  std::vector<Slice> mine;
  std::vector<GatherSlice> gathers;
  std::int64_t begin = 0;
  for (const Slice& slice : slices) {
    std::vector<std::int64_t> numel_of = parts.numel_of(begin, slice.input.numel);
    begin += slice.input.numel;
    const auto local = static_cast<std::ptrdiff_t>(layout_.local);
    const std::int64_t first =
        std::accumulate(numel_of.begin(), numel_of.begin() + local, std::int64_t{0});
    const TensorView part = part_of(slice.output, first, numel_of[layout_.local]);
    GatherSlice gather{part.data, slice.output.data, {}};
    for (const std::int64_t numel : numel_of) {
      gather.bytes_of.push_back(static_cast<std::size_t>(numel) * size_of(part.dtype));
    }
    mine.push_back({part, part});
    gathers.push_back(std::move(gather));
    scatters.push_back({slice.input, part, std::move(numel_of)});
  }
  auto operation = std::make_unique<HierOperation>();
  operation->add_stage(nullptr, [&] {
    return local_->reduce_scatter(scatters, {.op = reduction.op, .prescale = reduction.prescale});
  });
  operation->add_stage(cross_order_, [this, mine = std::move(mine), reduction] {
    return cross_->all_reduce(mine, {.op = reduction.op, .postscale = reduction.postscale});
  });
  operation->add_stage(
      spread_order_, [this, gathers = std::move(gathers)] { return spread_->all_gather(gathers); });
  return operation;
}

std::unique_ptr<Operation> HierCollective::reduce_by_leaders(std::span<const Slice> slices,
                                                             const Reduction& reduction) {
  std::vector<ScatterSlice> scatters;
  std::vector<Slice> outputs;
  for (const Slice& slice : slices) {
    std::vector<std::int64_t> numel_of(layout_.here().size());
    numel_of[0] = slice.input.numel;
    const TensorView part = part_of(slice.output, 0, numel_of[layout_.local]);
    scatters.push_back({slice.input, part, std::move(numel_of)});
    outputs.push_back({slice.output, slice.output});
  }
  auto operation = std::make_unique<HierOperation>();
  operation->add_stage(nullptr, [&] {
    return local_->reduce_scatter(scatters, {.op = reduction.op, .prescale = reduction.prescale});
  });
  if (cross_ != nullptr) {
    operation->add_stage(cross_order_, [this, outputs, reduction] {
      return cross_->all_reduce(outputs, {.op = reduction.op, .postscale = reduction.postscale});
    });
  }
  operation->add_stage(spread_order_, [this, outputs = std::move(outputs)] {
    return spread_->broadcast(outputs, 0);
  });
  return operation;
}

std::unique_ptr<Operation> HierCollective::all_gather(std::span<const GatherSlice> slices) {
  host::check_all_gather(slices, static_cast<int>(host_of_.size()));
  if (!options_.all_gather || slices.empty() || !layout_.even() || !layout_.in_blocks()) {
    return flat_->all_gather(slices);
  }
  auto operation = std::make_unique<HierOperation>();
  std::vector<GatherSlice> columns;  // this rank's and those of its place on other hosts
  std::vector<GatherSlice> blocks;   // of each host, as its part of the output
  for (const GatherSlice& slice : slices) {
    GatherSlice column{slice.input, nullptr, {}};
    for (const Rank rank : layout_.column()) {
      column.bytes_of.push_back(slice.bytes_of[static_cast<std::size_t>(rank)]);
    }
    const auto& sizes = column.bytes_of;
    auto* from = operation->scratch(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}));
    column.output = from;
    auto* to = static_cast<std::byte*>(slice.output);
    for (std::size_t host = 0; host < layout_.hosts.size(); ++host) {
      GatherSlice block{from, to, {}};
      for (const Rank rank : layout_.hosts[host]) {
        block.bytes_of.push_back(slice.bytes_of[static_cast<std::size_t>(rank)]);
      }
      from += sizes[host];
      to += std::accumulate(block.bytes_of.begin(), block.bytes_of.end(), std::size_t{0});
      blocks.push_back(std::move(block));
    }
    columns.push_back(std::move(column));
  }
  operation->add_stage(
      cross_order_, [this, columns = std::move(columns)] { return cross_->all_gather(columns); });
  operation->add_stage(spread_order_,
                       [this, blocks = std::move(blocks)] { return spread_->all_gather(blocks); });
  return operation;
}

std::unique_ptr<Collective> HierCollective::subset(std::uint32_t number,
                                                   std::span<const Rank> ranks) {
  const Rank rank = host::check_subset(ranks, rank_, static_cast<int>(host_of_.size()));
  std::vector<int> host_of;
  std::vector<Rank> here;  // places on this host
  for (const Rank each : ranks) {
    host_of.push_back(host_of_[static_cast<std::size_t>(each)]);
    const std::vector<Rank>& locals = layout_.here();
    const auto place = std::lower_bound(locals.begin(), locals.end(), each);
    if (place == locals.end() || *place != each) continue;
    here.push_back(static_cast<Rank>(place - locals.begin()));
  }
  if (here.size() == ranks.size()) return local_->subset(number, here);
  auto flat = flat_->subset(number, ranks);
  if (make_hier_layout(rank, host_of).hosts.size() == ranks.size()) return flat;
  return make(std::move(flat), local_->subset(number, here), rank, std::move(host_of), options_);
}

void HierCollective::progress(TimePoint now) {
  flat_->progress(now);
  local_->progress(now);
}

std::optional<Duration> HierCollective::poll_interval() const {
  return earlier(flat_->poll_interval(), local_->poll_interval());
}

std::optional<Duration> HierCollective::prepare_sleep() {
  return earlier(flat_->prepare_sleep(), local_->prepare_sleep());
}

void HierCollective::abort() noexcept {
  // What waits for its turn behind an operation that will not come to its next stage ends too.
  for (const HierOrderPtr& order : {cross_order_, spread_order_}) order->break_off();
  flat_->abort();
  local_->abort();
  spread_->abort();
  if (cross_ != nullptr) cross_->abort();
}

}  // namespace hvd::engine
