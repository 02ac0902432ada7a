#include "runner/output/output.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "core/base/text.h"

namespace hvd::runner {
namespace {

constexpr std::size_t kLongestTraceback = 1 << 16;  // bytes of one rank

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

constexpr std::size_t kLongestWait = 1 << 16;  // bytes of one line held back
constexpr std::size_t kNowhere = SIZE_MAX;     // not on standard error
constexpr std::size_t kLongestKept = 1 << 12;  // bytes of one line in last_lines()

}  // namespace

void Tracebacks::feed(int rank, std::string_view bytes, TimePoint now) {
  if (bytes.empty()) return;
  Rank& writer = ranks_[static_cast<std::size_t>(rank)];
  const bool in_line = std::exchange(writer.in_line, bytes.back() != '\n');
  if (writer.held.empty()) {
    const std::size_t begin = find_beginning(bytes, in_line);
    if (begin != 0) show_(std::span(&rank, 1), bytes.substr(0, begin));
    if (begin == std::string_view::npos) return;
    bytes.remove_prefix(begin);
    writer.since = now;
  }
  writer.held += bytes;
  if (writer.held.size() > kLongestTraceback)
    show_(std::span(&rank, 1), std::exchange(writer.held, {}));
}

void Tracebacks::rank_done(int rank, TimePoint now) {
  Rank& writer = ranks_[static_cast<std::size_t>(rank)];
  writer.done = true;
  if (!writer.held.empty()) show_final_at_ = std::min(show_final_at_, now + kOthersEnd);
  const auto is_done = [](const Rank& each) { return each.done; };
  if (std::all_of(ranks_.begin(), ranks_.end(), is_done)) finish();
}

void Tracebacks::flush_due(TimePoint now) {
  std::set<std::string> due;
  for (const Rank& rank : ranks_) {
    if (!rank.held.empty() && !rank.done && now - rank.since >= kRankEnds) due.insert(rank.held);
  }
  if (!due.empty()) release([&](const Rank& rank) { return due.contains(rank.held); });
  if (now < show_final_at_) return;
  show_final_at_ = TimePoint::max();
  release([](const Rank& rank) { return rank.done; });
}

TimePoint Tracebacks::due() const {
  TimePoint next = show_final_at_;
  for (const Rank& rank : ranks_) {
    if (!rank.held.empty() && !rank.done) next = std::min(next, rank.since + kRankEnds);
  }
  return next;
}

void Tracebacks::finish() {
  show_final_at_ = TimePoint::max();
  release([](const Rank&) { return true; });
}

void Tracebacks::release(const std::function<bool(const Rank&)>& wanted) {
  std::vector<std::pair<std::string, std::vector<int>>> released;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].held.empty() || !wanted(ranks_[rank])) continue;
    const std::string text = std::exchange(ranks_[rank].held, {});
    auto equal = std::find_if(released.begin(), released.end(),
                              [&](const auto& other) { return other.first == text; });
    if (equal == released.end()) equal = released.insert(equal, {text, {}});
    equal->second.push_back(static_cast<int>(rank));
  }
  for (const auto& [text, ranks] : released) show_(ranks, text);
}

void OutputPrinter::feed(int rank, Stream stream, std::string_view bytes, TimePoint now) {
  const Key key{rank, stream};
  Line& line = lines_[key];
  while (!bytes.empty()) {
    if (line.saw_return && bytes[0] != '\n') {
      // The return was no part of "\r\n": what follows overwrites this line.
      if (!line.waiting.empty()) show(key, line, false);
      line.restart = true;
      line.whole.clear();
    }
    line.saw_return = false;
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view text = bytes.substr(0, end);
    if (line.waiting.empty()) line.since = now;
    line.waiting += text;
    line.whole += text.substr(0, kLongestKept - std::min(kLongestKept, line.whole.size()));
    if (line.waiting.size() > kLongestWait) show(key, line, false);
    if (end == std::string_view::npos) return;
    if (bytes[end] == '\n') {
      show(key, line, true);
    } else {
      line.saw_return = true;
    }
    bytes.remove_prefix(end + 1);
  }
}

void OutputPrinter::flush_due(TimePoint now) {
  for (auto& [key, line] : lines_) {
    if (!line.waiting.empty() && now - line.since >= kPartialDelay) show(key, line, false);
  }
}

TimePoint OutputPrinter::due() const {
  TimePoint next = TimePoint::max();
  for (const auto& [key, line] : lines_) {
    if (!line.waiting.empty()) next = std::min(next, line.since + kPartialDelay);
  }
  return next;
}

void OutputPrinter::finish() {
  for (auto& [key, line] : lines_) {
    if (!line.waiting.empty() || line.shown) show(key, line, true);
  }
}

std::optional<OutputPrinter::Key>& OutputPrinter::open_line(Stream stream) {
  return open_[one_terminal_ ? 0 : static_cast<std::size_t>(stream)];
}

std::string OutputPrinter::name_of(int rank) const {
  const auto named = names_.find(rank);
  if (named != names_.end()) return named->second;
  return rank < 0 ? "launcher" : std::to_string(rank);
}

std::string OutputPrinter::prefix(const std::string& who) const {
  return "[" + who + "] " + (stamp_ ? stamp_() + " " : "");
}

// Ends the unfinished line of whoever's it is.
void OutputPrinter::close_line(Stream stream) {
  std::optional<Key>& open = open_line(stream);
  if (!open) return;
  write_(open->second, "\n");
  if (one_terminal_ || open->second == Stream::kStderr) ++shown_;
  open.reset();
}

// Moves `waiting` to the screen. `newline` ends the line.
void OutputPrinter::show(const Key& key, Line& line, bool newline) {
  std::optional<Key>& open = open_line(key.second);
  const bool continues = open == key;
  // A part was shown and another's line already ended it: nothing is left to end.
  const bool nothing_left = newline && !continues && line.shown && line.waiting.empty();
  if (!nothing_left) {
    if (!continues) close_line(key.second);
    std::string text;
    if (!continues) text = prefix(name_of(key.first));
    if (continues && line.restart) text = "\r" + prefix(name_of(key.first));
    text += line.waiting;
    if (newline) text += '\n';
    write_(key.second, std::move(text));
    open = newline ? std::nullopt : std::optional(key);
  }
  line.waiting.clear();
  line.restart = false;
  line.shown = !newline;
  if (newline) remember(key.first, key.second, std::exchange(line.whole, {}));
}

void OutputPrinter::feed_shared(std::span<const int> ranks, Stream stream, std::string_view lines) {
  close_line(stream);
  const std::string who = number_ranges(ranks, ",");
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string line(lines.substr(0, end));
    write_(stream, prefix(who) + line + "\n");
    const std::size_t place = shown_;
    for (const int rank : ranks) {
      shown_ = place;  // it is one line
      remember(rank, stream, line);
    }
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
  }
}

void OutputPrinter::remember(int rank, Stream stream, const std::string& line) {
  const bool seen = one_terminal_ || stream == Stream::kStderr;
  std::deque<Kept>& lines = last_lines_[rank];
  lines.push_back({line, seen ? shown_++ : kNowhere});
  if (lines.size() > kLastLines) lines.pop_front();
}

bool OutputPrinter::on_screen(int rank) const {
  const auto lines = last_lines_.find(rank);
  if (lines == last_lines_.end()) return false;
  return std::all_of(lines->second.begin(), lines->second.end(), [&](const Kept& kept) {
    return kept.above != kNowhere && shown_ - kept.above <= kOnScreen;
  });
}

std::deque<std::string> OutputPrinter::last_lines(int rank) const {
  std::deque<std::string> lines;
  const auto it = last_lines_.find(rank);
  if (it == last_lines_.end()) return lines;
  for (const Kept& kept : it->second) lines.push_back(kept.line);
  return lines;
}

}  // namespace hvd::runner
