#include "ops/mpi/mpi_adasum.h"

#include <algorithm>
#include <cstring>

#include "ops/host/reduce.h"

namespace hvd {
namespace {

enum Stage { kScatter, kProducts, kGather };

}  // namespace

class MpiAdasum::Piece final : public MpiPiece {
 public:
  explicit Piece(MpiAdasum& operation)
      : MpiPiece(operation), operation_(operation), element_(size_of(operation.dtype_)) {}

  bool next() override {
    if (vectors_.empty()) {
      scatter();
      return true;
    }
    if (received_products_ != nullptr) combine();
    if (level_ < operation_.levels_.size()) {
      exchange_products();
      return true;
    }
    if (result_ == nullptr) {
      gather();
      return true;
    }
    keep();
    return false;
  }

 private:
  using Products = host::AdasumProducts;

  // The range of elements that `rank` combines.
  std::size_t begin(std::size_t rank) const { return operation_.begins_.back() * rank / size(); }
  std::size_t numel(std::size_t rank) const { return begin(rank + 1) - begin(rank); }

  void scatter() {
    std::byte* const mine = packed();
    const std::size_t bytes = numel(rank()) * element_;
    std::byte* const received = scratch(bytes * size());
    for (std::size_t r = 0; r < size(); ++r) {
      std::byte* const place = received + r * bytes;
      vectors_.push_back(r == rank() ? mine + begin(r) * element_ : place);
      if (r == rank()) continue;
      receive(r, place, bytes, kScatter);
      send(r, mine + begin(r) * element_, numel(r) * element_, kScatter);
    }
  }

  // A copy, because the vectors are combined in place.
  std::byte* packed() {
    const Stopwatch packing(operation_.stats_.packing);
    const std::size_t bytes = operation_.input_.bytes();
    std::byte* const place = scratch(bytes);
    operation_.input_.copy_to(place, 0, bytes);
    scale(place, bytes / element_, operation_.reduction_.prescale);
    return place;
  }

  void scale(std::byte* data, std::size_t count, double factor) const {
    const void* const input = data;
    host::reduce(operation_.dtype_, ReduceOp::kSum, {&input, 1}, data,
                 static_cast<std::int64_t>(count), factor, 1.0);
  }

  // Calls visit(left vector, right vector, numel, index of the products) for this rank's range of
  // each tensor of each pair of the level.
  template <typename Visit>
  void for_each_range(Visit visit) const {
    const auto& begins = operation_.begins_;
    const std::size_t first = begin(rank());
    const std::size_t last = begin(rank() + 1);
    std::size_t index = 0;
    for (const host::AdasumPair& pair : operation_.levels_[level_]) {
      std::byte* const left = vectors_[static_cast<std::size_t>(pair.left)];
      const std::byte* const right = vectors_[static_cast<std::size_t>(pair.right)];
      for (std::size_t i = 0; i + 1 < begins.size(); ++i, ++index) {
        const std::size_t from = std::max(first, begins[i]);
        const std::size_t to = std::min(last, begins[i + 1]);
        if (from >= to) continue;
        const std::size_t offset = (from - first) * element_;
        visit(left + offset, right + offset, static_cast<std::int64_t>(to - from), index);
      }
    }
  }

  void exchange_products() {
    const std::size_t count = operation_.levels_[level_].size() * (operation_.begins_.size() - 1);
    products_.assign(count, {});
    for_each_range([&](const std::byte* a, const std::byte* b, std::int64_t n, std::size_t index) {
      products_[index] = host::adasum_products(operation_.dtype_, a, b, n);
    });
    const std::size_t bytes = count * sizeof(Products);
    received_products_ = scratch(bytes * size());
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == rank()) {
        std::memcpy(received_products_ + r * bytes, products_.data(), bytes);
        continue;
      }
      receive(r, received_products_ + r * bytes, bytes, kProducts);
      send(r, reinterpret_cast<const std::byte*>(products_.data()), bytes, kProducts);
    }
  }

  void combine() {
    const std::size_t count = products_.size();
    const auto* parts = reinterpret_cast<const Products*>(received_products_);
    products_.assign(count, {});
    for (std::size_t r = 0; r < size(); ++r) {
      for (std::size_t i = 0; i < count; ++i) products_[i] += parts[r * count + i];
    }
    for_each_range([&](std::byte* a, const std::byte* b, std::int64_t n, std::size_t index) {
      host::adasum_combine(operation_.dtype_, a, b, host::adasum_weights(products_[index]), a, n);
    });
    received_products_ = nullptr;
    ++level_;
  }

  void gather() {
    result_ = scratch(operation_.input_.bytes());
    std::byte* const mine = result_ + begin(rank()) * element_;
    const std::size_t bytes = numel(rank()) * element_;
    if (bytes > 0) std::memcpy(mine, vectors_[0], bytes);
    scale(mine, numel(rank()), operation_.reduction_.postscale);
    for (std::size_t r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      receive(r, result_ + begin(r) * element_, numel(r) * element_, kGather);
      send(r, mine, bytes, kGather);
    }
  }

  void keep() {
    const Stopwatch unpacking(operation_.stats_.unpacking);
    for (const Kept& kept : operation_.kept_) {
      if (kept.output.numel == 0) continue;
      std::memcpy(kept.output.data, result_ + kept.offset, kept.output.bytes());
    }
  }

  MpiAdasum& operation_;
  std::size_t element_;              // bytes
  std::vector<std::byte*> vectors_;  // this rank's range, by rank
  std::size_t level_ = 0;
  std::vector<Products> products_;  // by pair and tensor
  std::byte* received_products_ = nullptr;
  std::byte* result_ = nullptr;
};

MpiAdasum::MpiAdasum(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
                     std::span<const Slice> slices, const Reduction& reduction)
    : MpiOperation(std::move(set), std::move(ready)),
      reduction_(reduction),
      levels_(host::adasum_levels(static_cast<int>(size()))) {
  for (const Slice& slice : slices) add(slice.input, 0, slice.output);
}

MpiAdasum::MpiAdasum(std::shared_ptr<MpiSet> set, std::vector<Fence> ready,
                     std::span<const ScatterSlice> slices, const Reduction& reduction)
    : MpiOperation(std::move(set), std::move(ready)),
      reduction_(reduction),
      levels_(host::adasum_levels(static_cast<int>(size()))) {
  for (const ScatterSlice& slice : slices) {
    std::int64_t before = 0;
    for (std::size_t r = 0; r < rank(); ++r) before += slice.numel_of[r];
    add(slice.input, static_cast<std::size_t>(before), slice.output);
  }
}

// `kept_from`: the element of `input` from which on the result belongs to `output`.
void MpiAdasum::add(const TensorView& input, std::size_t kept_from, const TensorView& output) {
  dtype_ = input.dtype;
  kept_.push_back({input_.bytes() + kept_from * size_of(dtype_), output});
  input_.append(input.data, input.bytes());
  begins_.push_back(begins_.back() + static_cast<std::size_t>(input.numel));
  stats_.packed_bytes += input.bytes();
}

std::unique_ptr<MpiPiece> MpiAdasum::next_piece() {
  if (started_ || input_.bytes() == 0) return nullptr;
  started_ = true;
  return std::make_unique<Piece>(*this);
}

}  // namespace hvd
