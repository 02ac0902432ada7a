#include "test/gpu/logic/nccl_board.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvd::engine::test {
namespace {

constexpr auto kRanks = static_cast<std::size_t>(NcclBoard::kMostRanks);
constexpr std::size_t kAreaBytes = std::size_t{64} << 20;  // for an input, or for a mail
constexpr std::size_t kMostDivisions = 256;

}  // namespace

// Written by the rank itself. What comes before a counter is there when the counter says so.
struct NcclBoard::Rank {
  std::array<char, 32> device;
  std::atomic<bool> joined;
  std::atomic<std::size_t> divisions;
  std::array<std::pair<Division, BlockName>, kMostDivisions> parts;
  std::atomic<std::uint64_t> posted;  // collectives
  std::atomic<std::uint64_t> left;
  NcclPost post;  // the newest
};

struct NcclBoard::Mail {
  std::atomic<std::uint64_t> sent;
  std::atomic<std::uint64_t> received;
  std::size_t bytes;
};

// In front of the areas: of each rank's input, and of the mail of each pair.
struct NcclBoard::Layout {
  std::array<Rank, kRanks> ranks;
  std::array<Mail, kRanks * kRanks> mails;

  static constexpr std::size_t bytes() {
    constexpr std::size_t kPage = 4096;
    return (sizeof(Layout) + kPage - 1) / kPage * kPage;
  }
};

std::shared_ptr<NcclBoard> NcclBoard::make() {
  auto block = SharedBlock::make(Layout::bytes() + kRanks * (kRanks + 1) * kAreaBytes);
  if (block == nullptr) return nullptr;
  return std::shared_ptr<NcclBoard>(new NcclBoard(std::move(block)));
}

std::shared_ptr<NcclBoard> NcclBoard::open(const BlockName& name) {
  auto block = SharedBlock::open(name);
  if (block == nullptr) return nullptr;
  return std::shared_ptr<NcclBoard>(new NcclBoard(std::move(block)));
}

NcclBoard::Layout& NcclBoard::layout() const {
  return *reinterpret_cast<Layout*>(block_->data());
}

NcclBoard::Rank& NcclBoard::of(int rank) const {
  return layout().ranks.at(static_cast<std::size_t>(rank));
}

NcclBoard::Mail& NcclBoard::mail(int from, int to) const {
  return layout().mails.at(static_cast<std::size_t>(from * kMostRanks + to));
}

std::byte* NcclBoard::area(int number) const {
  return block_->data() + Layout::bytes() + static_cast<std::size_t>(number) * kAreaBytes;
}

void NcclBoard::join(int rank, const std::string& device) {
  device.copy(of(rank).device.data(), of(rank).device.size() - 1);
  of(rank).joined = true;
}

bool NcclBoard::has_joined(int rank) const {
  return of(rank).joined;
}

std::string NcclBoard::device_of(int rank) const {
  return of(rank).device.data();
}

void NcclBoard::divide(int rank, const Division& division, const BlockName& board) {
  of(rank).parts.at(of(rank).divisions) = {division, board};
  ++of(rank).divisions;
}

std::optional<BlockName> NcclBoard::part_of(int rank, const Division& division) const {
  const Rank& shown = of(rank);
  for (std::size_t i = 0; i < shown.divisions; ++i) {
    if (shown.parts[i].first == division) return shown.parts[i].second;
  }
  return std::nullopt;
}

bool NcclBoard::may_post(std::uint64_t number, int size) const {
  const auto& ranks = layout().ranks;
  return std::all_of(ranks.begin(), ranks.begin() + size,
                     [&](const Rank& rank) { return rank.left >= number; });
}

bool NcclBoard::post(int rank, const NcclPost& post, const void* input, std::size_t bytes) {
  if (bytes > kAreaBytes) return false;
  if (bytes != 0) std::memcpy(area(rank), input, bytes);
  of(rank).post = post;
  ++of(rank).posted;
  return true;
}

bool NcclBoard::all_posted(std::uint64_t number, int size) const {
  const auto& ranks = layout().ranks;
  return std::all_of(ranks.begin(), ranks.begin() + size,
                     [&](const Rank& rank) { return rank.posted > number; });
}

const NcclPost& NcclBoard::post_of(int rank) const {
  return of(rank).post;
}

const std::byte* NcclBoard::input_of(int rank) const {
  return area(rank);
}

void NcclBoard::leave(int rank) {
  ++of(rank).left;
}

bool NcclBoard::send(int from, int to, const void* data, std::size_t bytes) {
  Mail& out = mail(from, to);
  if (out.sent != out.received || bytes > kAreaBytes) return false;
  std::memcpy(area(kMostRanks + from * kMostRanks + to), data, bytes);
  out.bytes = bytes;
  ++out.sent;
  return true;
}

std::optional<std::size_t> NcclBoard::find_mail(int from, int to) const {
  const Mail& in = mail(from, to);
  if (in.sent == in.received) return std::nullopt;
  return in.bytes;
}

void NcclBoard::receive(int from, int to, void* data) {
  Mail& in = mail(from, to);
  std::memcpy(data, area(kMostRanks + from * kMostRanks + to), in.bytes);
  ++in.received;
}

}  // namespace hvd::engine::test
