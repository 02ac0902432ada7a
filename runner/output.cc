#include "runner/output.h"

#include <algorithm>

namespace hvd::runner {
namespace {

constexpr std::size_t kLongestWait = 1 << 16;  // bytes of one line held back
constexpr std::size_t kLongestKept = 1 << 12;  // bytes of one line in last_lines()

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

std::string OutputPrinter::prefix(int rank) const {
  const std::string who = rank == kLauncher ? "mpirun" : std::to_string(rank);
  return "[" + who + "] " + (stamp_ ? stamp_() + " " : "");
}

// Moves `waiting` to the screen. `newline` ends the line.
void OutputPrinter::write(const Key& key, Line& line, bool newline) {
  std::optional<Key>& open = open_line(key.second);
  const bool continues = open == key;
  // A part was shown and somebody else's line already ended it: nothing is left to end.
  const bool nothing_left = newline && !continues && line.shown && line.waiting.empty();
  if (!nothing_left) {
    if (open && !continues) chunks_.push_back({open->second, "\n"});
    std::string text;
    if (!continues) text = prefix(key.first);
    if (continues && line.restart) text = "\r" + prefix(key.first);
    text += line.waiting;
    if (newline) text += '\n';
    chunks_.push_back({key.second, std::move(text)});
    open = newline ? std::nullopt : std::optional(key);
  }
  line.waiting.clear();
  line.restart = false;
  line.shown = !newline;
  if (newline) {
    remember(key.first, std::exchange(line.whole, {}));
  }
}

void OutputPrinter::remember(int rank, const std::string& line) {
  std::deque<std::string>& lines = last_lines_[rank];
  lines.push_back(line);
  if (lines.size() > kLastLines) lines.pop_front();
}

const std::deque<std::string>& OutputPrinter::last_lines(int rank) const {
  static const std::deque<std::string> none;
  const auto it = last_lines_.find(rank);
  return it == last_lines_.end() ? none : it->second;
}

}  // namespace hvd::runner
