// Observers of several ranks and the telemetry between them, in lock-step with a clock of their
// own.

#include "core/observe/observers.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "core/negotiate/messages/message.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Received {
  Rank from = 0;
  std::string text;
  std::optional<ClockEstimate> clock;
};

// Tells rank 0 what was put into `to_tell`.
class Reporter final : public Observer {
 public:
  void observed(bool on) override { changes.push_back(on); }
  void collect(Bytes& out) override {
    for (const char byte : to_tell) out.push_back(static_cast<std::byte>(byte));
    to_tell.clear();
  }
  void receive(const Observation& observation) override {
    std::string text;
    for (const std::byte byte : observation.bytes) text += static_cast<char>(byte);
    received.push_back({observation.from, text, observation.clock});
  }

  std::string to_tell;
  std::vector<bool> changes;
  std::vector<Received> received;
};

constexpr TimePoint kBegin{seconds(1000)};

// Rank r's clock runs r seconds behind rank 0's.
class Ranks {
 public:
  explicit Ranks(int size) {
    for (Rank rank = 0; rank < size; ++rank) {
      observers.push_back(std::make_shared<Reporter>());
      const Topology topology{.rank = rank, .size = size};
      channels.emplace_back(ObserverList{observers.back()}, topology, 7u);
    }
  }
  TimePoint clock_of(Rank rank) const { return now - seconds(rank); }
  Observers& channel(Rank rank) { return channels[static_cast<std::size_t>(rank)]; }
  // Something that observers may want to tell.
  void happen(Rank rank) { channel(rank).failed(1, "x", {StatusCode::kMismatch, "no"}); }
  Reporter& observer(Rank rank) { return *observers[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(channels.size()); }

  void tick() {
    for (Rank rank = 0; rank < size(); ++rank) channel(rank).tick(clock_of(rank), observed);
  }
  // Every message takes a millisecond.
  int deliver() {
    int count = 0;
    for (bool moved = true; moved;) {
      moved = false;
      std::vector<std::pair<Rank, OutgoingMessage>> on_the_way;
      for (Rank rank = 0; rank < size(); ++rank) {
        while (auto message = channel(rank).next_message()) on_the_way.emplace_back(rank, *message);
      }
      if (!on_the_way.empty()) now += milliseconds(1);
      for (auto& [from, message] : on_the_way) {
        channel(message.to).receive(from, message.bytes, clock_of(message.to));
        moved = true;
        ++count;
      }
    }
    return count;
  }
  void pass(Duration time) {
    now += time;
    tick();
    deliver();
  }

  TimePoint now = kBegin;
  bool observed = false;
  std::vector<std::shared_ptr<Reporter>> observers;
  std::vector<Observers> channels;
};

TEST(Observers, RankZeroHearsWhatTheOthersCollected) {
  Ranks ranks(3);
  ranks.observer(1).to_tell = "one";
  ranks.observer(2).to_tell = "two";
  ranks.pass(milliseconds(0));
  ASSERT_EQ(ranks.observer(0).received.size(), 2u);
  EXPECT_EQ(ranks.observer(0).received[0].text, "one");
  EXPECT_EQ(ranks.observer(0).received[1].from, 2);
  EXPECT_EQ(ranks.observer(0).received[1].text, "two");
}

TEST(Observers, NobodyWritesMoreThanTenTimesPerSecond) {
  Ranks ranks(2);
  ranks.pass(milliseconds(0));
  ranks.observer(0).received.clear();
  for (int i = 0; i < 1000; ++i) {
    ranks.observer(1).to_tell += "x";
    ranks.happen(1);
    ranks.pass(milliseconds(1));
  }
  EXPECT_LE(ranks.observer(0).received.size(), 11u);
  EXPECT_GE(ranks.observer(0).received.size(), 9u);
}

TEST(Observers, NothingToTellWakesNobody) {
  Ranks ranks(2);
  ranks.pass(milliseconds(0));
  EXPECT_EQ(ranks.channel(0).next_deadline(), std::nullopt);
  EXPECT_EQ(ranks.channel(1).next_deadline(), std::nullopt);
  ranks.pass(seconds(1));
  EXPECT_EQ(ranks.channel(1).next_message(), std::nullopt);
  ranks.happen(1);
  EXPECT_NE(ranks.channel(1).next_deadline(), std::nullopt);
  ranks.now += seconds(1);
  ranks.tick();
  EXPECT_EQ(ranks.channel(1).next_message(), std::nullopt);
}

TEST(Observers, WhoIsObservedMeasuresItsClockBeforeItTells) {
  Ranks ranks(3);
  ranks.pass(milliseconds(0));
  ranks.observed = true;
  for (Rank rank : {1, 2}) {
    ranks.observer(rank).to_tell = "late";
    ranks.happen(rank);
  }
  ranks.observer(0).received.clear();
  ranks.now += milliseconds(200);
  ranks.tick();
  EXPECT_TRUE(ranks.observer(0).received.empty());
  ranks.deliver();
  ranks.pass(milliseconds(1));
  ASSERT_EQ(ranks.observer(0).received.size(), 2u);
  for (const Received& received : ranks.observer(0).received) {
    ASSERT_TRUE(received.clock);
    EXPECT_EQ(received.clock->offset, seconds(received.from));
    EXPECT_GE(received.clock->error, milliseconds(1));
    EXPECT_LT(received.clock->error, milliseconds(2));
  }
}

TEST(Observers, ClocksAreAskedEverySecondWhileObserved) {
  Ranks ranks(2);
  ranks.observed = true;
  ranks.pass(milliseconds(0));
  int messages = 0;
  for (int i = 0; i < 100; ++i) {
    ranks.now += milliseconds(100);
    ranks.tick();
    messages += ranks.deliver();
  }
  EXPECT_GE(messages, 2 * 8);
  EXPECT_LE(messages, 2 * 11);
}

TEST(Observers, ChangesOfTheLogReachEveryObserverOnce) {
  Ranks ranks(2);
  ranks.pass(milliseconds(0));
  ranks.observed = true;
  ranks.pass(milliseconds(1));
  ranks.pass(milliseconds(1));
  ranks.observed = false;
  ranks.pass(milliseconds(1));
  for (Rank rank : {0, 1}) {
    EXPECT_EQ(ranks.observer(rank).changes, (std::vector<bool>{true, false}));
  }
}

TEST(Observers, WhoIsNoLongerObservedTellsTheRestAtOnce) {
  Ranks ranks(2);
  ranks.observed = true;
  ranks.pass(milliseconds(0));
  ranks.pass(milliseconds(0));
  ranks.observer(0).received.clear();
  ranks.observer(1).to_tell = "rest";
  ranks.observed = false;
  ranks.pass(milliseconds(0));
  ASSERT_EQ(ranks.observer(0).received.size(), 1u);
  EXPECT_EQ(ranks.observer(0).received[0].text, "rest");
}

TEST(Observers, RankZeroWaitsForLastWords) {
  Ranks ranks(3);
  ranks.pass(milliseconds(0));
  ranks.channel(0).leave(ranks.now, true);
  EXPECT_FALSE(ranks.channel(0).settled(ranks.now));
  ranks.observer(1).to_tell = "bye";
  for (Rank rank : {1, 2}) ranks.channel(rank).leave(ranks.clock_of(rank), true);
  ranks.deliver();
  EXPECT_TRUE(ranks.channel(0).settled(ranks.now));
  EXPECT_EQ(ranks.observer(0).received.back().text, "bye");
}

TEST(Observers, NobodyWaitsForTheDeadOrForEver) {
  Ranks ranks(3);
  ranks.pass(milliseconds(0));
  ranks.channel(0).leave(ranks.now, true);
  ranks.channel(0).peer_lost(1);
  ranks.channel(0).peer_lost(1);
  EXPECT_FALSE(ranks.channel(0).settled(ranks.now));
  EXPECT_EQ(ranks.channel(0).next_deadline(), ranks.now + std::chrono::seconds(2));
  EXPECT_TRUE(ranks.channel(0).settled(ranks.now + std::chrono::seconds(2)));
  Ranks failed(2);
  failed.pass(milliseconds(0));
  failed.channel(0).leave(failed.now, false);
  EXPECT_TRUE(failed.channel(0).settled(failed.now));
}

TEST(Observers, AlteredMessagesAreRefused) {
  Ranks ranks(2);
  ranks.observer(1).to_tell = "a few bytes";
  ranks.tick();
  const OutgoingMessage good = *ranks.channel(1).next_message();
  EXPECT_TRUE(is_observation(good.bytes));
  for (std::size_t length = 0; length < good.bytes.size(); ++length) {
    const Bytes cut(good.bytes.begin(), good.bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(ranks.channel(0).receive(1, cut, ranks.now), PeerLostError) << length;
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    Bytes altered = good.bytes;
    for (std::uint32_t i = random() % 4; i != 0; --i) {
      altered[random() % altered.size()] = static_cast<std::byte>(random());
    }
    try {
      ranks.channel(random() % 2).receive(static_cast<Rank>(random() % 4) - 1, altered, ranks.now);
    } catch (const PeerLostError&) {
    }
  }
  EXPECT_THROW(ranks.channel(0).receive(2, good.bytes, ranks.now), PeerLostError);
  EXPECT_THROW(ranks.channel(0).receive(-1, good.bytes, ranks.now), PeerLostError);
  EXPECT_THROW(ranks.channel(1).receive(0, good.bytes, ranks.now), PeerLostError);
}

TEST(Observers, AnotherEpochIsNotHeard) {
  Ranks ranks(2);
  Observers other({std::make_shared<Reporter>()}, {.rank = 1, .size = 2}, 8);
  other.leave(kBegin, true);
  const OutgoingMessage message = *other.next_message();
  ranks.channel(0).receive(1, message.bytes, kBegin);
  EXPECT_TRUE(ranks.observer(0).received.empty());
}

}  // namespace
}  // namespace hvd::engine
