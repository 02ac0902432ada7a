#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "test/gpu/logic/nccl_meeting.h"
#include "test/gpu/logic/shared_block.h"

namespace hvd::engine::test {

// What the ranks of a communicator, threads or processes, show each other: memory that they share.
// Nothing waits; what cannot be done yet is tried again. Each rank's calls come from one stream,
// one after another.
class NcclBoard {
 public:
  static constexpr int kMostRanks = 16;

  // Nothing if that cannot be had.
  static std::shared_ptr<NcclBoard> make();
  static std::shared_ptr<NcclBoard> open(const BlockName& name);

  const BlockName& name() const { return block_->name(); }

  void join(int rank, const std::string& device);
  bool has_joined(int rank) const;
  std::string device_of(int rank) const;  // of one that has joined

  // Some of the ranks, who make the how many'th communicator of their own. Each shows that it takes
  // part, the lowest of them also where its board is.
  struct Division {
    std::uint64_t members = 0;  // bits
    int time = 0;

    int lowest() const { return std::countr_zero(members); }
    friend bool operator==(const Division&, const Division&) = default;
  };
  void divide(int rank, const Division& division, const BlockName& board);
  // What that rank showed.
  std::optional<BlockName> part_of(int rank, const Division& division) const;

  // Collective `number` (0, 1, ...) of this rank. The first is false while others have not left the
  // one before; false, too, is what does not fit.
  bool may_post(std::uint64_t number, int size) const;
  bool post(int rank, const NcclPost& post, const void* input, std::size_t bytes);
  bool all_posted(std::uint64_t number, int size) const;
  const NcclPost& post_of(int rank) const;
  const std::byte* input_of(int rank) const;
  void leave(int rank);

  // False while what was sent before is not taken, or nothing is there.
  bool send(int from, int to, const void* data, std::size_t bytes);
  // The bytes that are there for `to`.
  std::optional<std::size_t> find_mail(int from, int to) const;
  void receive(int from, int to, void* data);

 private:
  struct Rank;
  struct Mail;
  struct Layout;

  explicit NcclBoard(std::unique_ptr<SharedBlock> block) : block_(std::move(block)) {}
  Layout& layout() const;
  Rank& of(int rank) const;
  Mail& mail(int from, int to) const;
  std::byte* area(int number) const;

  std::unique_ptr<SharedBlock> block_;
};

}  // namespace hvd::engine::test
