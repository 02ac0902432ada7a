#include "ops/shm/shm_movement.h"

#include <algorithm>

#include "ops/host/streaming_copy.h"

namespace hvd {

using host::ByteSequence;

ShmGather::ShmGather(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                     std::span<const GatherSlice> slices)
    : ShmOperation(std::move(set), std::move(ready)), outputs_(size()) {
  for (const GatherSlice& slice : slices) {
    host::append_parts(outputs_, slice.output, slice.bytes_of);
    // Read, never written to.
    input_.append(const_cast<void*>(slice.input), slice.bytes_of[rank()]);
  }
  prepare();
}

ShmGather::ShmGather(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                     std::span<const Slice> slices, Rank root)
    : ShmOperation(std::move(set), std::move(ready)), outputs_(size()) {
  const auto from = static_cast<std::size_t>(root);
  for (const Slice& slice : slices) {
    outputs_[from].append(slice.output.data, slice.output.bytes());
    if (rank() == from) input_.append(slice.input.data, slice.input.bytes());
  }
  prepare();
}

void ShmGather::prepare() {
  stats_.packed_bytes = input_.bytes();
  std::size_t longest = 0;
  for (std::size_t r = 0; r < size(); ++r) {
    if (r != rank()) longest = std::max(longest, outputs_[r].bytes());
  }
  set_plan({.writes = steps_of(input_.bytes(), chunk_bytes()),
            .reads = steps_of(longest, chunk_bytes())});
}

bool ShmGather::receives(std::size_t from, Step step) const {
  return from != rank() && length_of(outputs_[from].bytes(), chunk_bytes(), step) > 0;
}

void ShmGather::write(Step step) {
  const host::Stopwatch packing(stats_.packing);
  const std::size_t first = step * chunk_bytes();
  const std::size_t bytes = length_of(input_.bytes(), chunk_bytes(), step);
  input_.show_to(chunk(rank(), step), first, bytes);
  outputs_[rank()].copy_from(input_, first, bytes);
}

void ShmGather::read(Step step) {
  const host::Stopwatch unpacking(stats_.unpacking);
  for (std::size_t r = 0; r < size(); ++r) {
    if (!receives(r, step)) continue;
    const std::size_t bytes = length_of(outputs_[r].bytes(), chunk_bytes(), step);
    outputs_[r].copy_from(chunk(r, step), step * chunk_bytes(), bytes);
  }
}

ShmExchange::ShmExchange(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
                         std::span<const ExchangeSlice> slices)
    : ShmOperation(std::move(set), std::move(ready)), inputs_(size()), outputs_(size()) {
  for (const ExchangeSlice& slice : slices) {
    host::append_parts(inputs_, slice.input, slice.bytes_to);
    host::append_parts(outputs_, slice.output, slice.bytes_from);
  }
  Plan plan;
  for (std::size_t r = 0; r < size(); ++r) {
    stats_.packed_bytes += inputs_[r].bytes();
    plan.writes = std::max(plan.writes, steps_of(inputs_[r].bytes(), share()));
    if (r != rank()) plan.reads = std::max(plan.reads, steps_of(outputs_[r].bytes(), share()));
  }
  set_plan(plan);
}

bool ShmExchange::sends(std::size_t to, Step step) const {
  return to != rank() && length_of(inputs_[to].bytes(), share(), step) > 0;
}

bool ShmExchange::receives(std::size_t from, Step step) const {
  return from != rank() && length_of(outputs_[from].bytes(), share(), step) > 0;
}

void ShmExchange::write(Step step) {
  const host::Stopwatch packing(stats_.packing);
  for (std::size_t r = 0; r < size(); ++r) {
    const std::size_t bytes = length_of(inputs_[r].bytes(), share(), step);
    if (r == rank()) {
      outputs_[r].copy_from(inputs_[r], step * share(), bytes);
    } else {
      inputs_[r].show_to(chunk(rank(), step) + r * share(), step * share(), bytes);
    }
  }
}

void ShmExchange::read(Step step) {
  const host::Stopwatch unpacking(stats_.unpacking);
  for (std::size_t r = 0; r < size(); ++r) {
    if (!receives(r, step)) continue;
    const std::size_t bytes = length_of(outputs_[r].bytes(), share(), step);
    outputs_[r].copy_from(chunk(r, step) + rank() * share(), step * share(), bytes);
  }
}

}  // namespace hvd
