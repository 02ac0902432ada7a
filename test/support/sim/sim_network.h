#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/thread_annotations.h"
#include "core/ports/control_plane.h"
#include "core/ports/doorbell.h"

namespace hvd::engine {

// A random time from zero to `limit`.
inline Duration random_delay(std::mt19937_64& random, Duration limit) {
  if (limit == Duration::zero()) return limit;
  return Duration(std::uniform_int_distribution<Duration::rep>(0, limit.count())(random));
}

// The mailboxes and doorbells of all ranks of a SimWorld. Thread-safe.
class SimNetwork {
 public:
  SimNetwork(int size, Duration max_delay, std::uint64_t seed);

  void send(Rank from, Rank to, std::span<const std::byte> message);
  // Throws LostRankError once for every rank that was cut.
  std::optional<Message> poll(Rank rank);
  Doorbell& doorbell(Rank rank) { return bells_[static_cast<std::size_t>(rank)]; }
  void ring_all();

  // Ends all links of the rank, in both directions.
  void cut(Rank rank, const std::string& why);
  void silence(Rank rank, bool silent);

 private:
  struct Mail {
    Message message;
    TimePoint due;
  };
  struct Loss {
    Rank rank = 0;
    std::string why;
  };
  struct Box {
    std::deque<Mail> mail;
    std::deque<Loss> losses;
    std::vector<TimePoint> last_due;  // by sender: keeps a link in order whatever the delays
    bool cut = false;
    bool silent = false;
  };

  Box& box(Rank rank) HVD_REQUIRES(mutex_) { return boxes_[static_cast<std::size_t>(rank)]; }

  const Duration max_delay_;
  Mutex mutex_;
  std::mt19937_64 random_ HVD_GUARDED_BY(mutex_);
  std::vector<Box> boxes_ HVD_GUARDED_BY(mutex_);
  std::vector<DoorbellState> bell_states_;
  std::vector<Doorbell> bells_;
};

}  // namespace hvd::engine
