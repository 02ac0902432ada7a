#include "ops/host/adasum_operation.h"

#include <algorithm>
#include <cstring>

#include "ops/host/host_memory.h"
#include "ops/host/reduce.h"
#include "ops/host/streaming_copy.h"

namespace hvd::host {

AdasumOperation::AdasumOperation(Collective& collective, Rank rank, int size,
                                 std::vector<Fence> ready, std::span<const Slice> slices,
                                 const Reduction& reduction)
    : rank_(static_cast<std::size_t>(rank)),
      size_(static_cast<std::size_t>(size)),
      ready_(std::move(ready)),
      reduction_(reduction),
      levels_(adasum_levels(size)) {
  for (const Slice& slice : slices) add(slice.input, 0, slice.output);
  start(collective);
}

AdasumOperation::AdasumOperation(Collective& collective, Rank rank, int size,
                                 std::vector<Fence> ready, std::span<const ScatterSlice> slices,
                                 const Reduction& reduction)
    : rank_(static_cast<std::size_t>(rank)),
      size_(static_cast<std::size_t>(size)),
      ready_(std::move(ready)),
      reduction_(reduction),
      levels_(adasum_levels(size)) {
  for (const ScatterSlice& slice : slices) {
    std::int64_t before = 0;
    for (std::size_t r = 0; r < rank_; ++r) before += slice.numel_of[r];
    add(slice.input, static_cast<std::size_t>(before), slice.output);
  }
  start(collective);
}

// `kept_from`: the element of `input` from which on the result belongs to `output`.
void AdasumOperation::add(const TensorView& input, std::size_t kept_from,
                          const TensorView& output) {
  dtype_ = input.dtype;
  kept_.push_back({input_.bytes() + kept_from * size_of(dtype_), output});
  input_.append(input.data, input.bytes());
  begins_.push_back(begins_.back() + static_cast<std::size_t>(input.numel));
  stats_.packed_bytes += input.bytes();
}

std::size_t AdasumOperation::bytes_of(std::size_t rank) const {
  return (begin(rank + 1) - begin(rank)) * size_of(dtype_);
}

std::byte* AdasumOperation::vector(int rank) const {
  return static_cast<std::byte*>(vectors_.data) + static_cast<std::size_t>(rank) * bytes_of(rank_);
}

void AdasumOperation::start(Collective& collective) {
  if (input_.bytes() == 0) return;
  std::vector<std::size_t> ranges;
  for (std::size_t r = 0; r < size_; ++r) ranges.push_back(bytes_of(r));
  packed_ = collective.allocate(input_.bytes());
  vectors_ = collective.allocate(bytes_of(rank_) * size_);
  result_ = collective.allocate(input_.bytes());
  const ExchangeSlice scatter = {packed_.data, vectors_.data, ranges,
                                 std::vector<std::size_t>(size_, bytes_of(rank_))};
  operations_.push_back(collective.all_to_all({&scatter, 1}));
  // The first level has the most pairs, so its room is enough for all.
  const std::size_t tensors = begins_.size() - 1;
  products_.resize(levels_.empty() ? 0 : levels_.front().size() * tensors);
  all_products_.resize(products_.size() * size_);
  for (const auto& level : levels_) {
    const std::size_t bytes = level.size() * tensors * sizeof(AdasumProducts);
    const GatherSlice exchange = {products_.data(), all_products_.data(),
                                  std::vector<std::size_t>(size_, bytes)};
    operations_.push_back(collective.all_gather({&exchange, 1}));
  }
  const GatherSlice gather = {vectors_.data, result_.data, ranges};
  operations_.push_back(collective.all_gather({&gather, 1}));
}

bool AdasumOperation::advance() {
  if (!all_reached(ready_)) return false;
  if (!is_packed_ && !operations_.empty()) pack();
  for (; finished_ < operations_.size(); ++finished_) {
    if (!operations_[finished_]->advance()) return false;
    if (finished_ > 0 && finished_ <= levels_.size()) combine();
    if (finished_ < levels_.size()) multiply();
    if (finished_ == levels_.size()) scale(vector(0), bytes_of(rank_), reduction_.postscale);
    if (finished_ + 1 == operations_.size()) keep();
  }
  return true;
}

bool AdasumOperation::withdraw() noexcept {
  bool withdrawn = true;
  for (const auto& each : operations_) withdrawn = each->withdraw() && withdrawn;
  return withdrawn;
}

void AdasumOperation::pack() {
  is_packed_ = true;
  const Stopwatch packing(stats_.packing);
  auto* const place = static_cast<std::byte*>(packed_.data);
  input_.copy_to(place, 0, input_.bytes());
  scale(place, input_.bytes(), reduction_.prescale);
}

void AdasumOperation::scale(std::byte* data, std::size_t bytes, double factor) const {
  const void* const input = data;
  reduce(dtype_, ReduceOp::kSum, {&input, 1}, data,
         static_cast<std::int64_t>(bytes / size_of(dtype_)), factor, 1.0);
}

// Calls visit(left vector, right vector, numel, index of the products) for this rank's range of
// each tensor of each pair of the level whose products are on their way.
template <typename Visit>
void AdasumOperation::for_each_range(Visit visit) const {
  const std::size_t first = begin(rank_);
  const std::size_t last = begin(rank_ + 1);
  std::size_t index = 0;
  for (const AdasumPair& pair : levels_[level_]) {
    for (std::size_t i = 0; i + 1 < begins_.size(); ++i, ++index) {
      const std::size_t from = std::max(first, begins_[i]);
      const std::size_t to = std::min(last, begins_[i + 1]);
      if (from >= to) continue;
      const std::size_t offset = (from - first) * size_of(dtype_);
      visit(vector(pair.left) + offset, vector(pair.right) + offset,
            static_cast<std::int64_t>(to - from), index);
    }
  }
}

void AdasumOperation::multiply() {
  std::fill(products_.begin(), products_.end(), AdasumProducts{});
  for_each_range([&](const std::byte* a, const std::byte* b, std::int64_t n, std::size_t index) {
    products_[index] = adasum_products(dtype_, a, b, n);
  });
}

void AdasumOperation::combine() {
  const std::size_t count = levels_[level_].size() * (begins_.size() - 1);
  std::fill(products_.begin(), products_.end(), AdasumProducts{});
  for (std::size_t r = 0; r < size_; ++r) {
    for (std::size_t i = 0; i < count; ++i) products_[i] += all_products_[r * count + i];
  }
  for_each_range([&](std::byte* a, const std::byte* b, std::int64_t n, std::size_t index) {
    adasum_combine(dtype_, a, b, adasum_weights(products_[index]), a, n);
  });
  ++level_;
}

void AdasumOperation::keep() {
  const Stopwatch unpacking(stats_.unpacking);
  const auto* const result = static_cast<const std::byte*>(result_.data);
  for (const Kept& kept : kept_) {
    if (kept.output.numel == 0) continue;
    std::memcpy(kept.output.data, result + kept.offset, kept.output.bytes());
  }
}

}  // namespace hvd::host
