#include "runner/output/tracebacks.h"

#include <algorithm>
#include <array>

namespace hvd::runner {
namespace {

constexpr std::size_t kMostHeld = 1 << 16;  // bytes of one rank

constexpr std::array<std::string_view, 3> kBeginnings = {
    "Traceback (most recent call last):",  // Python
    "terminate called ",                   // C++
    "  + Exception Group Traceback"};

// Where a line of `bytes` begins a traceback; npos if none does.
std::size_t find_beginning(std::string_view bytes, bool in_line) {
  std::size_t line = in_line ? bytes.find('\n') : 0;
  if (in_line && line != std::string_view::npos) ++line;
  while (line < bytes.size()) {
    const std::string_view rest = bytes.substr(line);
    const auto begins = [&](std::string_view beginning) { return rest.starts_with(beginning); };
    if (std::any_of(kBeginnings.begin(), kBeginnings.end(), begins)) return line;
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    line += end + 1;
  }
  return std::string_view::npos;
}

}  // namespace

void Tracebacks::feed(int rank, std::string_view bytes, TimePoint now) {
  if (bytes.empty()) return;
  bool& in_line = in_line_[rank];
  auto held = held_.find(rank);
  if (held == held_.end()) {
    const std::size_t begin = find_beginning(bytes, in_line);
    in_line = bytes.back() != '\n';
    show(rank, bytes.substr(0, begin));
    if (begin == std::string_view::npos) return;
    bytes.remove_prefix(begin);
    held = held_.emplace(rank, Held{{}, now}).first;
  }
  in_line = bytes.back() != '\n';
  held->second.text += bytes;
  if (held->second.text.size() <= kMostHeld) return;
  show(rank, held->second.text);
  held_.erase(held);
}

void Tracebacks::rank_done(int rank, TimePoint now) {
  done_.insert(rank);
  if (held_.contains(rank) && !show_final_at_) show_final_at_ = now + kOthersEnd;
  if (std::cmp_equal(done_.size(), np_)) show_final();
}

void Tracebacks::flush_due(TimePoint now) {
  std::set<std::string_view> due;
  for (const auto& [rank, held] : held_) {
    if (!is_done(rank) && now - held.since >= kRankEnds) due.insert(held.text);
  }
  std::set<int> ranks;
  for (const auto& [rank, held] : held_) {
    if (due.contains(held.text)) ranks.insert(rank);
  }
  release(ranks);
  if (show_final_at_ && now >= *show_final_at_) show_final();
}

std::optional<TimePoint> Tracebacks::due() const {
  std::optional<TimePoint> next = show_final_at_;
  for (const auto& [rank, held] : held_) {
    if (is_done(rank)) continue;
    next = next ? std::min(*next, held.since + kRankEnds) : held.since + kRankEnds;
  }
  return next;
}

void Tracebacks::finish() {
  show_final_at_.reset();
  std::set<int> ranks;
  for (const auto& [rank, held] : held_) ranks.insert(rank);
  release(ranks);
}

void Tracebacks::show(int rank, std::string_view text) {
  if (!text.empty()) pieces_.push_back({{rank}, std::string(text)});
}

void Tracebacks::show_final() {
  show_final_at_.reset();
  release(done_);
}

void Tracebacks::release(const std::set<int>& ranks) {
  std::vector<Piece> released;
  for (const int rank : ranks) {
    const auto held = held_.find(rank);
    if (held == held_.end()) continue;
    const auto equal = std::find_if(released.begin(), released.end(), [&](const Piece& piece) {
      return piece.text == held->second.text;
    });
    if (equal != released.end()) {
      equal->ranks.push_back(rank);
    } else {
      released.push_back({{rank}, std::move(held->second.text)});
    }
    held_.erase(held);
  }
  for (Piece& piece : released) pieces_.push_back(std::move(piece));
}

}  // namespace hvd::runner
