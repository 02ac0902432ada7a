#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.h"

namespace hvd::runner {

// Ranks that fail for one reason print one traceback each, all at the same time. This holds what a
// rank writes to standard error from the beginning of a traceback on, until it is known whether the
// rank ends with it, and then until the others have ended as well: equal ones come out as one, and
// none is mixed with another. Pure: bytes in, pieces out.
class Tracebacks {
 public:
  // A traceback after which the rank goes on is held for so long; equal ones go with the first.
  static constexpr Duration kRankEnds = std::chrono::seconds(1);
  // That of a rank that ended, for the others to end.
  static constexpr Duration kOthersEnd = std::chrono::seconds(3);

  struct Piece {
    std::vector<int> ranks;  // ascending
    std::string text;
  };

  explicit Tracebacks(int np) : np_(np) {}

  // What `rank` wrote to standard error.
  void feed(int rank, std::string_view bytes, TimePoint now);
  // Nothing of this rank will follow.
  void rank_done(int rank, TimePoint now);
  // Gives up what was held long enough.
  void flush_due(TimePoint now);
  // When flush_due() has something to do next; empty while nothing is held.
  std::optional<TimePoint> due() const;
  // Gives up everything.
  void finish();

  // What to show, in order.
  std::vector<Piece> take() { return std::exchange(pieces_, {}); }

 private:
  struct Held {
    std::string text;
    TimePoint since;
  };

  bool is_done(int rank) const { return done_.contains(rank); }
  void show(int rank, std::string_view text);
  void show_final();  // of the ranks that are done
  // What is held of these, equal ones as one.
  void release(const std::set<int>& ranks);

  int np_;
  std::map<int, bool> in_line_;  // the last byte of the rank was no line end
  std::map<int, Held> held_;
  std::set<int> done_;
  std::optional<TimePoint> show_final_at_;
  std::vector<Piece> pieces_;
};

}  // namespace hvd::runner
