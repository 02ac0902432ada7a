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

// Ranks that fail for one reason print one traceback each, all at the same time. This holds what a
// rank writes to standard error from the beginning of a traceback on, until it is known whether the
// rank ends with it, and then until the others have ended as well: equal ones come out as one, and
// none is mixed with another. Pure: bytes in, calls of `show` out.
class Tracebacks {
 public:
  // A traceback after which the rank goes on is held for so long; equal ones go with the first.
  static constexpr Duration kRankEnds = std::chrono::seconds(1);
  // That of a rank that ended, for the others to end.
  static constexpr Duration kOthersEnd = std::chrono::seconds(3);

  // Takes what all of `ranks` (ascending) have written.
  using Show = std::function<void(std::span<const int> ranks, std::string_view text)>;

  Tracebacks(int np, Show show) : ranks_(static_cast<std::size_t>(np)), show_(std::move(show)) {}

  // What `rank` wrote to standard error.
  void feed(int rank, std::string_view bytes, TimePoint now);
  // Nothing of this rank will follow.
  void rank_done(int rank, TimePoint now);
  // Gives up what was held long enough.
  void flush_due(TimePoint now);
  // When flush_due() has something to do next; max() while nothing is held.
  TimePoint due() const;
  // Gives up everything.
  void finish();

 private:
  struct Rank {
    std::string held;      // from the beginning of a traceback on
    TimePoint since{};     // it is held
    bool in_line = false;  // the last byte was no line end
    bool done = false;
  };

  // Shows what is held of those ranks for which `wanted` holds.
  void release(const std::function<bool(const Rank&)>& wanted);

  std::vector<Rank> ranks_;
  Show show_;
  TimePoint show_final_at_ = TimePoint::max();  // what is held of ranks that are done
};

// Turns what ranks write into lines that say who wrote them, "[1] text", and keeps each rank's
// last lines. Lines of different ranks are never mixed. A line that does not end is shown after
// kPartialDelay; a carriage return starts it again, so progress bars work. Pure: bytes in, calls of
// `write` out.
class OutputPrinter {
 public:
  static constexpr Duration kPartialDelay = std::chrono::milliseconds(100);
  static constexpr std::size_t kLastLines = 10;
  static constexpr std::size_t kOnScreen = 40;  // lines that a terminal shows, more or less
  static constexpr int kLauncher = -1;          // and below: what starts agents, "[launcher] text"

  using Write = std::function<void(Stream stream, std::string text)>;
  // What stands between the prefix and the text of a line: the time, or nothing.
  using Stamp = std::function<std::string()>;

  // `one_terminal`: standard output and standard error end up in the same place. `stamp` is called
  // when a line begins to be shown; empty = none.
  OutputPrinter(bool one_terminal, Write write, Stamp stamp = {})
      : one_terminal_(one_terminal), write_(std::move(write)), stamp_(std::move(stamp)) {}

  // Stands before the lines of `rank` in place of its number.
  void name(int rank, std::string name) { names_[rank] = std::move(name); }
  void feed(int rank, Stream stream, std::string_view bytes, TimePoint now);
  // Lines that these ranks (ascending) have written alike, "[0,2-7] text".
  void feed_shared(std::span<const int> ranks, Stream stream, std::string_view lines);
  // Shows lines without an end that have waited long enough.
  void flush_due(TimePoint now);
  // When flush_due() has something to do next; max() while nothing waits.
  TimePoint due() const;
  // Shows what is left and ends the last line.
  void finish();

  std::deque<std::string> last_lines(int rank) const;
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
  struct Kept {
    std::string line;
    std::size_t above;  // lines on standard error before it, or kNowhere
  };

  void show(const Key& key, Line& line, bool newline);
  std::string prefix(const std::string& who) const;
  std::string name_of(int rank) const;
  void close_line(Stream stream);
  void remember(int rank, Stream stream, const std::string& line);
  std::optional<Key>& open_line(Stream stream);

  bool one_terminal_;
  Write write_;
  Stamp stamp_;
  std::map<int, std::string> names_;
  std::map<Key, Line> lines_;
  std::array<std::optional<Key>, 2> open_;      // whose unfinished line each terminal shows
  std::map<int, std::deque<Kept>> last_lines_;  // by rank
  std::size_t shown_ = 0;                       // lines on standard error
};

}  // namespace hvd::runner
