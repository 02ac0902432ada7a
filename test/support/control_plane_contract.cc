#include "test/support/control_plane_contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "test/support/repeat.h"

namespace hvd::engine::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// `length` bytes: who sends, the message's number, then a pattern of both. Messages shorter than
// the header carry as much of it as fits.
Bytes make_message(Rank from, std::uint32_t number, std::size_t length) {
  Bytes message;
  ByteWriter writer(message);
  writer.put(static_cast<std::int32_t>(from));
  writer.put(number);
  const std::size_t header = message.size();
  message.resize(length);
  constexpr std::size_t kPeriod = 256;
  for (std::size_t i = header; i < std::min(length, header + kPeriod); ++i) {
    message[i] = static_cast<std::byte>(i * 7 + number + static_cast<std::uint32_t>(from));
  }
  if (length > header) repeat_prefix(std::span(message).subspan(header), kPeriod);
  return message;
}

using Length = std::function<std::size_t(std::uint32_t number)>;

// Everyone sends numbered messages to everyone else; from each rank they must come in order,
// complete and once.
class Exchange {
 public:
  Exchange(ControlPlane& plane, Rank rank, int size, std::uint32_t count, const Length& length)
      : plane_(plane),
        rank_(rank),
        count_(count),
        length_(length),
        arrived_(static_cast<std::size_t>(size), 0) {}

  // All `count` are sent before any is read. Then follow two more, each when everybody's previous
  // one is here: so whoever leaves has nothing queued behind a full mailbox, and sees extra ones.
  void run() {
    for (std::uint32_t number = 0; number < count_; ++number) send(number);
    for (const std::uint32_t last : {count_, count_ + 1}) {
      ASSERT_NO_FATAL_FAILURE(receive_up_to(last));
      send(last);
    }
    ASSERT_NO_FATAL_FAILURE(receive_up_to(count_ + 2));
    EXPECT_FALSE(plane_.poll().has_value());
  }

 private:
  std::size_t length_of(std::uint32_t number) const {
    return number < count_ ? length_(number) : 16;
  }

  void send(std::uint32_t number) {
    Bytes message = make_message(rank_, number, length_of(number));
    for (Rank to = 0; to < static_cast<Rank>(arrived_.size()); ++to) {
      if (to != rank_) plane_.send(to, message);
    }
    std::memset(message.data(), 0xee, message.size());  // send() took what it needs
  }

  // Reads until the first `wanted` messages of every other rank are here.
  void receive_up_to(std::uint32_t wanted) {
    arrived_[static_cast<std::size_t>(rank_)] = wanted;
    while (*std::min_element(arrived_.begin(), arrived_.end()) < wanted) {
      const Message message = next_message(plane_);
      ASSERT_GE(message.from, 0);
      ASSERT_LT(message.from, static_cast<Rank>(arrived_.size()));
      ASSERT_NE(message.from, rank_);
      const std::uint32_t number = arrived_[static_cast<std::size_t>(message.from)]++;
      ASSERT_LT(number, count_ + 2) << "an extra message from rank " << message.from;
      ASSERT_TRUE(message.bytes == make_message(message.from, number, length_of(number)))
          << "message " << number << " from rank " << message.from << " came with "
          << message.bytes.size() << " bytes";
    }
  }

  ControlPlane& plane_;
  Rank rank_;
  std::uint32_t count_;
  Length length_;
  std::vector<std::uint32_t> arrived_;  // messages of each rank
};

void exchange_messages(ControlPlane& plane, Rank rank, int size, std::uint32_t count,
                       const Length& length) {
  Exchange(plane, rank, size, count, length).run();
}

void delivers_in_order_between_every_pair(ControlPlane& plane, Rank rank, int size) {
  exchange_messages(plane, rank, size, 100, [](auto number) { return 8 + number * 37 % 300; });
}

void delivers_every_size(ControlPlane& plane, Rank rank, int size) {
  static constexpr std::size_t kSizes[] = {
      0,    1,       2,       63,    64,    65,      1000, 4095,
      4096, 4097,    65535,   65536, 65537, 100'000, 0,    (1 << 20) - 1,
      3,    1 << 20, 500'000, 0};
  exchange_messages(plane, rank, size, std::size(kSizes),
                    [](std::uint32_t number) { return kSizes[number]; });
}

// A sender that waited for its receiver would wait forever: nobody reads before all have sent.
void takes_more_than_a_mailbox_holds(ControlPlane& plane, Rank rank, int size) {
  const auto count = static_cast<std::uint32_t>(30'000 / std::max(1, size - 1));
  exchange_messages(plane, rank, size, count, [](auto number) { return 8 + number % 60; });
}

void takes_several_large_ones_at_once(ControlPlane& plane, Rank rank, int size) {
  exchange_messages(plane, rank, size, 6, [](auto) { return std::size_t{1} << 20; });
}

// A token goes round: each rank sleeps on its doorbell until the rank before it has had a rest.
void message_wakes_the_sleeping_receiver(ControlPlane& plane, Rank rank, int size) {
  if (size == 1) return;
  const auto pass_token = [&] {
    std::this_thread::sleep_for(milliseconds(20));
    plane.send((rank + 1) % size, make_message(rank, 0, 40));
  };
  if (rank == 0) pass_token();
  const Message message = next_message(plane);
  EXPECT_EQ(message.from, (rank + size - 1) % size);
  EXPECT_EQ(message.bytes, make_message(message.from, 0, 40));
  if (rank != 0) pass_token();
}

void any_thread_rings_the_doorbell(ControlPlane& plane, Rank, int) {
  const std::uint32_t seen = plane.doorbell().rings();
  std::thread ringer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    plane.doorbell().ring();
  });
  const TimePoint start = Clock::now();
  plane.doorbell().wait_until(seen, start + seconds(30));
  ringer.join();
  EXPECT_LT(Clock::now() - start, seconds(10));
  EXPECT_NE(plane.doorbell().rings(), seen);
}

void polls_nothing_when_nothing_was_sent(ControlPlane& plane, Rank, int) {
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(plane.poll().has_value());
}

void has_a_sane_poll_interval(ControlPlane& plane, Rank, int) {
  const std::optional<Duration> interval = plane.poll_interval();
  if (!interval.has_value()) return;
  EXPECT_GE(*interval, Duration::zero());
  EXPECT_LE(*interval, std::chrono::microseconds(100));
}

void counts_ranks_and_hosts(ControlPlane& plane, Rank rank, int size) {
  const Topology topology = plane.topology();
  EXPECT_EQ(topology.rank, rank);
  EXPECT_EQ(topology.size, size);
  const std::vector<int>& host_of = plane.host_of();
  ASSERT_EQ(host_of.size(), static_cast<std::size_t>(size));
  int hosts = 0;
  std::vector<int> local_rank_of;
  for (Rank each = 0; each < size; ++each) {
    const int host = host_of[static_cast<std::size_t>(each)];
    ASSERT_GE(host, 0);
    ASSERT_LE(host, hosts) << "hosts are numbered in the order of their lowest ranks";
    hosts = std::max(hosts, host + 1);
    local_rank_of.push_back(
        static_cast<int>(std::count(host_of.begin(), host_of.begin() + each, host)));
    EXPECT_FALSE(plane.host_name(each).empty()) << "rank " << each;
  }
  const int my_host = host_of[static_cast<std::size_t>(rank)];
  EXPECT_EQ(topology.local_size, std::count(host_of.begin(), host_of.end(), my_host));
  const int local_rank = local_rank_of[static_cast<std::size_t>(rank)];
  EXPECT_EQ(topology.local_rank, local_rank);
  const auto begin = local_rank_of.begin();
  EXPECT_EQ(topology.cross_size, std::count(begin, local_rank_of.end(), local_rank));
  EXPECT_EQ(topology.cross_rank, std::count(begin, begin + rank, local_rank));
  for (Rank each = 0; each < size; ++each) {
    if (host_of[static_cast<std::size_t>(each)] != my_host) continue;
    EXPECT_EQ(plane.host_name(each), plane.host_name(rank));
  }
}

using Run = std::function<void(ControlPlane&, Rank, int)>;

// An exception on a rank's thread would end the process instead of the test.
Run guarded(Run inner) {
  return [inner = std::move(inner)](ControlPlane& plane, Rank rank, int size) {
    try {
      inner(plane, rank, size);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << " of " << size << ": " << error.what();
    }
  };
}

}  // namespace

Message next_message(ControlPlane& plane) {
  const TimePoint deadline = Clock::now() + seconds(30);
  while (true) {
    const TimePoint now = Clock::now();
    if (now > deadline) throw std::runtime_error("no message came, or nobody rang, in 30 s");
    const std::uint32_t seen = plane.doorbell().rings();
    if (std::optional<Message> message = plane.poll()) return std::move(*message);
    const std::optional<Duration> interval = plane.poll_interval();
    plane.doorbell().wait_until(seen, interval ? std::min(now + *interval, deadline) : deadline);
  }
}

std::vector<ControlPlaneCase> control_plane_contract() {
  std::vector<ControlPlaneCase> cases = {
      {"TopologyCountsRanksAndHosts", counts_ranks_and_hosts},
      {"PollIntervalIsAtMost100us", has_a_sane_poll_interval},
      {"PollsNothingWhenNothingWasSent", polls_nothing_when_nothing_was_sent},
      {"DeliversInOrderBetweenEveryPair", delivers_in_order_between_every_pair},
      {"DeliversEverySize", delivers_every_size},
      {"TakesMoreThanAMailboxHolds", takes_more_than_a_mailbox_holds},
      {"TakesSeveralLargeOnesAtOnce", takes_several_large_ones_at_once},
      {"AMessageWakesTheSleepingReceiver", message_wakes_the_sleeping_receiver},
      {"AnyThreadRingsTheDoorbell", any_thread_rings_the_doorbell},
  };
  for (ControlPlaneCase& each : cases) each.run = guarded(std::move(each.run));
  return cases;
}

}  // namespace hvd::engine::test
