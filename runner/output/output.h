#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "runner/link/wire.h"

namespace hvd::runner {

// Turns what ranks write into lines that say who wrote them, "[1] text", and keeps each rank's
// last lines. Lines of different ranks are never mixed. A line that does not end is shown after
// kPartialDelay; a carriage return starts it again, so progress bars work. Pure: bytes in, chunks
// out.
class OutputPrinter {
 public:
  static constexpr Duration kPartialDelay = std::chrono::milliseconds(100);
  static constexpr std::size_t kLastLines = 10;
  static constexpr std::size_t kOnScreen = 40;  // lines that a terminal shows, more or less
  static constexpr int kLauncher = -1;          // mpirun itself, "[mpirun] text"

  struct Chunk {
    Stream stream;
    std::string text;
    friend bool operator==(const Chunk&, const Chunk&) = default;
  };

  // What stands between the prefix and the text of a line: the time, or nothing.
  using Stamp = std::function<std::string()>;

  // `one_terminal`: standard output and standard error end up in the same place. `stamp` is called
  // when a line begins to be shown; empty = none.
  explicit OutputPrinter(bool one_terminal, Stamp stamp = {})
      : one_terminal_(one_terminal), stamp_(std::move(stamp)) {}

  void feed(int rank, Stream stream, std::string_view bytes, TimePoint now);
  // Lines that these ranks (ascending) have written alike, "[0,2-7] text".
  void feed_shared(std::span<const int> ranks, Stream stream, std::string_view lines);
  // Shows lines without an end that have waited long enough.
  void flush_due(TimePoint now);
  // When flush_due() has something to do next; empty while nothing waits.
  std::optional<TimePoint> due() const;
  // Shows what is left and ends the last line.
  void finish();

  // What to write, in order.
  std::vector<Chunk> take() { return std::exchange(chunks_, {}); }
  const std::deque<std::string>& last_lines(int rank) const;
  // Whether whoever reads standard error has all of last_lines(rank) among the last kOnScreen
  // lines there.
  bool on_screen(int rank) const;

 private:
  using Key = std::pair<int, Stream>;
  struct Line {
    std::string waiting;      // not shown yet
    std::string whole;        // since the last line end or carriage return, for last_lines()
    bool restart = false;     // a carriage return came before `waiting`
    bool saw_return = false;  // the last byte was one; the next decides what it meant
    bool shown = false;       // a part of this line is on the screen
    TimePoint since{};
  };

  void write(const Key& key, Line& line, bool newline);
  std::string prefix(const std::string& who) const;
  void close_line(Stream stream);
  void remember(int rank, Stream stream, const std::string& line);
  std::optional<Key>& open_line(Stream stream);

  bool one_terminal_;
  Stamp stamp_;
  std::map<Key, Line> lines_;
  std::array<std::optional<Key>, 2> open_;  // whose unfinished line each terminal shows
  std::map<int, std::deque<std::string>> last_lines_;
  std::map<int, std::deque<std::size_t>> places_;  // of last_lines_: what stood above it, kNowhere
  std::size_t shown_ = 0;                          // lines on standard error
  std::vector<Chunk> chunks_;
};

}  // namespace hvd::runner
