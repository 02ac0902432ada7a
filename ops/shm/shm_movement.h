#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/host/byte_sequence.h"
#include "ops/shm/shm_operation.h"

namespace hvd {

// What some ranks show to all: an all-gather, or a broadcast, in which one rank shows something.
class ShmGather final : public ShmOperation {
 public:
  ShmGather(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
            std::span<const GatherSlice> slices);
  ShmGather(std::shared_ptr<ShmSet> set, std::vector<Fence> ready, std::span<const Slice> slices,
            Rank root);

 protected:
  void write(Step step) override;
  void read(Step step) override;
  bool sends(std::size_t to, Step) const override { return to != rank(); }
  bool receives(std::size_t from, Step step) const override;
  bool needs_all() const override { return false; }

 private:
  void prepare();

  host::ByteSequence input_;
  std::vector<host::ByteSequence> outputs_;  // by rank; this rank's own may be its input
};

// From every rank to every other one. A chunk has a share for each.
class ShmExchange final : public ShmOperation {
 public:
  ShmExchange(std::shared_ptr<ShmSet> set, std::vector<Fence> ready,
              std::span<const ExchangeSlice> slices);

 protected:
  void write(Step step) override;
  void read(Step step) override;
  bool sends(std::size_t to, Step step) const override;
  bool receives(std::size_t from, Step step) const override;
  bool needs_all() const override { return false; }

 private:
  std::vector<host::ByteSequence> inputs_;   // by receiver
  std::vector<host::ByteSequence> outputs_;  // by sender
};

}  // namespace hvd
