#include "runner/output/output.h"

#include <algorithm>
#include <cstdint>

namespace hvd::runner {
namespace {

constexpr std::size_t kLongestWait = 1 << 16;  // bytes of one line held back
constexpr std::size_t kNowhere = SIZE_MAX;     // not on standard error
constexpr std::size_t kLongestKept = 1 << 12;  // bytes of one line in last_lines()

std::string name_of(int rank) {
  return rank == OutputPrinter::kLauncher ? "mpirun" : std::to_string(rank);
}

// "0,2-7"
std::string ranges(std::span<const int> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? "," : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

void OutputPrinter::feed(int rank, Stream stream, std::string_view bytes, TimePoint now) {
  const Key key{rank, stream};
  Line& line = lines_[key];
  while (!bytes.empty()) {
    if (line.saw_return && bytes[0] != '\n') {
      // The return was no part of "\r\n": what follows overwrites this line.
      if (!line.waiting.empty()) write(key, line, false);
      line.restart = true;
      line.whole.clear();
    }
    line.saw_return = false;
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view text = bytes.substr(0, end);
    if (line.waiting.empty()) line.since = now;
    line.waiting += text;
    line.whole += text.substr(0, kLongestKept - std::min(kLongestKept, line.whole.size()));
    if (line.waiting.size() > kLongestWait) write(key, line, false);
    if (end == std::string_view::npos) return;
    if (bytes[end] == '\n') {
      write(key, line, true);
    } else {
      line.saw_return = true;
    }
    bytes.remove_prefix(end + 1);
  }
}

void OutputPrinter::flush_due(TimePoint now) {
  for (auto& [key, line] : lines_) {
    if (!line.waiting.empty() && now - line.since >= kPartialDelay) write(key, line, false);
  }
}

std::optional<TimePoint> OutputPrinter::due() const {
  std::optional<TimePoint> next;
  for (const auto& [key, line] : lines_) {
    if (line.waiting.empty()) continue;
    const TimePoint at = line.since + kPartialDelay;
    if (!next || at < *next) next = at;
  }
  return next;
}

void OutputPrinter::finish() {
  for (auto& [key, line] : lines_) {
    if (!line.waiting.empty() || line.shown) write(key, line, true);
  }
}

std::optional<OutputPrinter::Key>& OutputPrinter::open_line(Stream stream) {
  return open_[one_terminal_ ? 0 : static_cast<std::size_t>(stream)];
}

std::string OutputPrinter::prefix(const std::string& who) const {
  return "[" + who + "] " + (stamp_ ? stamp_() + " " : "");
}

// Ends the unfinished line of whoever's it is.
void OutputPrinter::close_line(Stream stream) {
  std::optional<Key>& open = open_line(stream);
  if (!open) return;
  chunks_.push_back({open->second, "\n"});
  if (one_terminal_ || open->second == Stream::kStderr) ++shown_;
  open.reset();
}

// Moves `waiting` to the screen. `newline` ends the line.
void OutputPrinter::write(const Key& key, Line& line, bool newline) {
  std::optional<Key>& open = open_line(key.second);
  const bool continues = open == key;
  // A part was shown and somebody else's line already ended it: nothing is left to end.
  const bool nothing_left = newline && !continues && line.shown && line.waiting.empty();
  if (!nothing_left) {
    if (!continues) close_line(key.second);
    std::string text;
    if (!continues) text = prefix(name_of(key.first));
    if (continues && line.restart) text = "\r" + prefix(name_of(key.first));
    text += line.waiting;
    if (newline) text += '\n';
    chunks_.push_back({key.second, std::move(text)});
    open = newline ? std::nullopt : std::optional(key);
  }
  line.waiting.clear();
  line.restart = false;
  line.shown = !newline;
  if (newline) remember(key.first, key.second, std::exchange(line.whole, {}));
}

void OutputPrinter::feed_shared(std::span<const int> ranks, Stream stream, std::string_view lines) {
  close_line(stream);
  const std::string who = ranges(ranks);
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    const std::string line(lines.substr(0, end));
    chunks_.push_back({stream, prefix(who) + line + "\n"});
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
  std::deque<std::string>& lines = last_lines_[rank];
  std::deque<std::size_t>& places = places_[rank];
  lines.push_back(line);
  places.push_back(seen ? shown_++ : kNowhere);
  if (lines.size() <= kLastLines) return;
  lines.pop_front();
  places.pop_front();
}

bool OutputPrinter::on_screen(int rank) const {
  const auto places = places_.find(rank);
  if (places == places_.end()) return false;
  return std::all_of(places->second.begin(), places->second.end(), [&](std::size_t place) {
    return place != kNowhere && shown_ - place <= kOnScreen;
  });
}

const std::deque<std::string>& OutputPrinter::last_lines(int rank) const {
  static const std::deque<std::string> none;
  const auto it = last_lines_.find(rank);
  return it == last_lines_.end() ? none : it->second;
}

}  // namespace hvd::runner
