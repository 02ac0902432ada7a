#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/system/host.h"
#include "ops/connect/introduction.h"
#include "ops/connect/local_socket.h"
#include "ops/connect/rendezvous.h"
#include "test/ops/connect/rendezvous_places.h"
#include "test/support/attempts.h"
#include "test/support/run_ranks.h"

namespace hvd::engine::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kKey = "a key that nobody guesses";

struct Place {
  const char* name;
  MeetingPoint (*make)();
};

class RendezvousAt : public ::testing::TestWithParam<Place> {
 protected:
  Meeting meeting(Rank rank, int size, std::string key = kKey) const {
    return {point_, rank, size, std::move(key)};
  }
  // What a rank that only comes and gathers meets with.
  Status outcome(const Meeting& meeting, Duration limit = kPlenty) const {
    return status_of([&] { attend(meeting, in(limit))->all_gather("x", in(limit)); });
  }
  // What a rank that does not know the key meets with: at once, or, as rank 0 may leave another
  // file yet, at the deadline.
  void expect_refusal(const Meeting& meeting) const {
    const std::string why = "does not know the key of this job";
    const Status status = first_good_within(
        kSoon, [&](Duration limit) { return outcome(meeting, limit); },
        [&](const Status& each) { return each.message().find(why) != std::string::npos; });
    const bool by_file = point_.kind == MeetingPoint::Kind::kFile;
    EXPECT_EQ(status.code(), by_file ? StatusCode::kStalled : StatusCode::kTransport);
    EXPECT_THAT(status.message(), AllOf(HasSubstr(why), HasSubstr("HVD_RENDEZVOUS_KEY")));
  }
  // The outcomes of ranks that come at the same time.
  std::vector<Status> outcomes(const std::vector<Meeting>& meetings, Duration limit) const {
    std::vector<Status> all(meetings.size());
    run_ranks(static_cast<int>(meetings.size()), [&](int i) {
      const auto at = static_cast<std::size_t>(i);
      all[at] = outcome(meetings[at], limit);
    });
    return all;
  }

  const MeetingPoint point_ = GetParam().make();
};

TEST_P(RendezvousAt, EveryRankGetsEverysTextInOrderAgainAndAgain) {
  run_ranks(4, [&](Rank rank) {
    const auto others = attend(meeting(rank, 4), in(kPlenty));
    EXPECT_EQ(others->rank(), rank);
    EXPECT_EQ(others->size(), 4);
    for (int round = 0; round < 50; ++round) {
      const std::string mine = std::string(static_cast<std::size_t>(round) * 100, 'x');
      const auto all = others->all_gather(mine + std::to_string(rank), in(kPlenty));
      ASSERT_EQ(all, (std::vector<std::string>{mine + "0", mine + "1", mine + "2", mine + "3"}));
    }
  });
}

TEST_P(RendezvousAt, CanBeUsedAgainAtOnce) {
  run_ranks(3, [&](Rank rank) {
    for (int job = 0; job < 20; ++job) {
      const auto others = attend(meeting(rank, 3), in(kPlenty));
      const std::string mine = std::to_string(job);
      ASSERT_EQ(others->all_gather(mine, in(kPlenty)), std::vector<std::string>(3, mine));
    }
  });
}

TEST_P(RendezvousAt, TheDeadlineNamesWhoIsMissingOnEveryRank) {
  const auto named_on_both = ::testing::Each(
      AllOf(::testing::Property(&Status::code, StatusCode::kStalled),
            ::testing::Property(&Status::message, HasSubstr("rank(s) 1, 3 did not connect"))));
  // The limit of one may be over before the other has begun.
  const std::vector<Status> both = first_good_within(
      kSoon,
      [&](Duration limit) {
        return outcomes({meeting(0, 4), meeting(2, 4)}, limit);
      },
      [&](const auto& each) { return ::testing::Value(each, named_on_both); });
  EXPECT_THAT(both, named_on_both);
}

TEST_P(RendezvousAt, TheDeadlineNamesRankZeroWhenItIsMissing) {
  const Status status = outcome(meeting(1, 2), kSoon);
  EXPECT_EQ(status.code(), StatusCode::kStalled);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 0"), HasSubstr(to_string(point_))));
}

TEST_P(RendezvousAt, SizesThatDifferAreAnErrorOnBothAtOnce) {
  for (const Status& status : outcomes({meeting(0, 2), meeting(1, 3)}, kPlenty)) {
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("of 3 ranks"), HasSubstr("one of 2")));
  }
}

TEST_P(RendezvousAt, TwoRanksWithOneNumberAreAnErrorOnAllAtOnce) {
  for (const Status& status : outcomes({meeting(0, 3), meeting(1, 3), meeting(1, 3)}, kPlenty)) {
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1 of 3"), HasSubstr("two processes")));
  }
}

TEST_P(RendezvousAt, ASecondRankZeroIsRefusedAtOnce) {
  const auto first = attend(meeting(0, 2), in(kPlenty));
  const Status status = outcome(meeting(0, 2));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 0"), HasSubstr("choose another")));
  // The first one is not disturbed.
  run_ranks(2, [&](Rank rank) {
    if (rank == 0) {
      first->all_gather("x", in(kPlenty));
    } else {
      EXPECT_EQ(outcome(meeting(1, 2)), Status());
    }
  });
}

TEST_P(RendezvousAt, AKeyKeepsOtherJobsOutAndTheJobGoesOn) {
  std::atomic<bool> refused = false;
  run_ranks(3, [&](int i) {
    if (i == 2) {
      expect_refusal(meeting(1, 2, "the key of another job"));
      refused = true;
      return;
    }
    while (i == 1 && !refused) std::this_thread::yield();
    EXPECT_EQ(outcome(meeting(i, 2)), Status());
  });
}

// Whose key is another is of another job for sure, however wrong the rest is.
TEST_P(RendezvousAt, NothingThatAnUnauthenticatedPeerSaysEndsTheMeeting) {
  std::atomic<int> refused = 0;
  const std::vector<Meeting> peers = {
      meeting(9, 10, "the key of another job"), meeting(1, 3, "the key of another job"),
      meeting(1, 2, "the key of another job"), meeting(1, 2, std::string(2, 'x'))};
  run_ranks(2 + static_cast<int>(peers.size()), [&](int i) {
    if (i >= 2) {
      expect_refusal(peers[static_cast<std::size_t>(i) - 2]);
      ++refused;
      return;
    }
    while (i == 1 && refused < 4) std::this_thread::yield();
    EXPECT_EQ(outcome(meeting(i, 2)), Status());
  });
}

TEST_P(RendezvousAt, ARankThatEndsIsReportedAtOnce) {
  std::atomic<bool> all_here = false;
  run_ranks(3, [&](Rank rank) {
    const Status status = status_of([&] {
      const auto others = attend(meeting(rank, 3), in(kPlenty));
      if (rank == 1) all_here = true;
      while (rank == 2 && !all_here) std::this_thread::yield();
      if (rank != 2) others->all_gather("x", in(kPlenty));
    });
    if (rank == 2) return;
    EXPECT_EQ(status.code(), StatusCode::kTransport);
    EXPECT_THAT(status.message(), HasSubstr("rank 2"));
  });
}

TEST_P(RendezvousAt, ARankThatComesJustAfterAnotherHasEndedHearsOfItAtOnce) {
  std::atomic<bool> has_left = false;
  run_ranks(3, [&](Rank rank) {
    while (rank == 1 && !has_left) std::this_thread::yield();
    // Rank 0 has noticed by then.
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const Status status = status_of([&] {
      const auto others = attend(meeting(rank, 3), in(kPlenty));
      if (rank != 2) others->all_gather("x", in(kPlenty));
    });
    if (rank == 2) {
      has_left = true;
      return;
    }
    EXPECT_EQ(status.code(), StatusCode::kTransport);
    EXPECT_THAT(status.message(), ::testing::StartsWith("rank 2"));
  });
}

TEST_P(RendezvousAt, AWorldOfOneWaitsForNobody) {
  EXPECT_EQ(attend(meeting(0, 1), in(kSoon))->all_gather("a", in(kSoon)),
            std::vector<std::string>{"a"});
}

INSTANTIATE_TEST_SUITE_P(Places, RendezvousAt,
                         ::testing::Values(Place{"Tcp", tcp_point}, Place{"Tcp6", tcp6_point},
                                           Place{"Unix", unix_point}, Place{"Both", both_point},
                                           Place{"File", file_point}),
                         [](const auto& instance) { return instance.param.name; });

// Where who is no process of this user cannot come, a key may be left out. Another job of this user
// may come then by mistake: it is told so, and this one goes on.
class RendezvousWithoutAKey : public RendezvousAt {
 protected:
  // Ranks 0 and 1 meet when `stray` was sent away.
  Status outcome_of_unknown(const Meeting& stray) {
    std::atomic<bool> refused = false;
    Status status;
    run_ranks(3, [&](int i) {
      if (i == 2) {
        status = outcome(stray);
        refused = true;
        return;
      }
      while (i == 1 && !refused) std::this_thread::yield();
      EXPECT_EQ(outcome(meeting(i, 2, "")), Status());
    });
    return status;
  }
};

TEST_P(RendezvousWithoutAKey, ARankOfAnotherSizeIsToldSoAndTheOthersMeet) {
  const Status status = outcome_of_unknown(meeting(1, 3, ""));
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("of 3 ranks"), HasSubstr("one of 2")));
}

TEST_P(RendezvousWithoutAKey, ARankOutOfRangeIsToldSoAndTheOthersMeet) {
  const Status status = outcome_of_unknown(meeting(7, 2, ""));
  EXPECT_EQ(status.code(), StatusCode::kMismatch);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 7 (process"), HasSubstr("1 to 1")));
}

TEST_P(RendezvousWithoutAKey, TheDeadlineTellsOfARankThatDidNotFit) {
  for (const Status& status : outcomes({meeting(0, 2, ""), meeting(1, 3, "")}, kSoon)) {
    EXPECT_THAT(status.message(), AllOf(HasSubstr("of 3 ranks"), HasSubstr("one of 2")));
  }
}

TEST_P(RendezvousWithoutAKey, RanksThatDoNotFitAreWarnedOfOnce) {
  ::testing::internal::CaptureStderr();
  std::atomic<bool> refused = false;
  run_ranks(3, [&](int i) {
    if (i == 2) {
      for (int again = 0; again < 3; ++again) {
        EXPECT_EQ(outcome(meeting(1, 3, "")).code(), StatusCode::kMismatch);
      }
      refused = true;
      return;
    }
    while (i == 1 && !refused) std::this_thread::yield();
    EXPECT_EQ(outcome(meeting(i, 2, "")), Status());
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  const std::string warning = "turned away a process";
  EXPECT_THAT(said, HasSubstr(warning));
  EXPECT_EQ(said.find(warning), said.rfind(warning)) << said;
}

INSTANTIATE_TEST_SUITE_P(Places, RendezvousWithoutAKey,
                         ::testing::Values(Place{"Tcp", tcp_point}, Place{"Unix", unix_point},
                                           Place{"Both", both_point}, Place{"File", file_point}),
                         [](const auto& instance) { return instance.param.name; });

TEST(RendezvousOverTcp, NeedsAKeyIfOneIsRequired) {
  NetworkSettings strict;
  strict.require_key = true;
  const MeetingPoint point = tcp_point();
  for (const Rank rank : {0, 1}) {
    const Meeting meeting{.point = point, .rank = rank, .size = 2, .network = strict};
    const Status status = status_of([&] { attend(meeting, in(kPlenty)); });
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("HVD_RENDEZVOUS_KEY"), HasSubstr("openssl rand"),
                                        HasSubstr("file:///"), HasSubstr(to_string(point))));
  }
  for (const MeetingPoint& safe : {unix_point(), file_point()}) {
    const Meeting meeting{.point = safe, .rank = 0, .size = 1, .network = strict};
    EXPECT_NO_THROW(attend(meeting, in(kPlenty)));
  }
}

// What rank 0 alone says on standard error, once.
TEST(RendezvousOverTcp, WarnsOnRankZeroWithoutAKey) {
  const MeetingPoint point = tcp_point();
  ::testing::internal::CaptureStderr();
  run_ranks(2, [&](Rank rank) {
    attend({point, rank, 2}, in(kPlenty))->all_gather("x", in(kPlenty));
  });
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("HVD_RENDEZVOUS_KEY is not set"), HasSubstr(to_string(point))));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

// Of one program with torch.distributed, which has taken MASTER_PORT.
TEST(RendezvousOverTcp, RanksOfOneHostNeedNoPort) {
  const TcpListener other = listen_on("127.0.0.1");
  const MeetingPoint point{MeetingPoint::Kind::kTcp, "127.0.0.1", other.at.port, fresh_word()};
  run_ranks(2, [&](Rank rank) {
    const auto others = attend({point, rank, 2, kKey}, in(kPlenty));
    EXPECT_EQ(others->all_gather("x", in(kPlenty)).size(), 2u);
  });
  const auto alone = attend({point, 0, 2, kKey}, in(kPlenty));
  const Status status = status_of([&] { alone->all_gather("x", in(kSoon)); });
  EXPECT_THAT(status.message(), AllOf(HasSubstr("no other host can come"),
                                      HasSubstr("HVD_RENDEZVOUS=tcp://host:port")));
}

TEST(RendezvousOverTcp, ANameWithoutAnAddressIsNamed) {
  const MeetingPoint point{MeetingPoint::Kind::kTcp, "nowhere.invalid", free_port()};
  const Status status = status_of([&] { attend({point, 1, 2, kKey}, in(kSoon)); });
  EXPECT_EQ(status.code(), StatusCode::kStalled);
  EXPECT_THAT(status.message(), HasSubstr("cannot find the address of host 'nowhere.invalid'"));
}

TcpDescriptor connected(const MeetingPoint& point) {
  std::string why;
  TcpDescriptor fd = connect_to(point, kPlenty, in(kPlenty), why);
  EXPECT_TRUE(static_cast<bool>(fd)) << why;
  return fd;
}

void say(const TcpDescriptor& fd, std::span<const std::byte> bytes) {
  EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

Handshake caller(Rank rank, const std::string& key) {
  return Handshake::caller(std::as_bytes(std::span(key)),
                           {.service = HandshakeService::kRendezvous, .to = 0}, rank);
}

// Two ranks meet while unauthenticated peers do what they do.
void expect_a_meeting(Rendezvous& host, const MeetingPoint& point) {
  run_ranks(2, [&](Rank rank) {
    if (rank == 0) {
      EXPECT_EQ(host.all_gather("a", in(kPlenty)).size(), 2u);
    } else {
      const auto guest = attend({point, 1, 2, kKey}, in(kPlenty));
      EXPECT_EQ(guest->all_gather("b", in(kPlenty)), (std::vector<std::string>{"a", "b"}));
    }
  });
}

// A name may lead to loopback on its own host, and to an interface from others.
TEST(RendezvousOverTcp, ANameIsListenedForOnAllInterfaces) {
  const MeetingPoint point{MeetingPoint::Kind::kTcp, host_name(), free_port()};
  const auto host = attend({point, 0, 2, kKey}, in(kPlenty));
  for (const std::string& address : addresses_of("", local_addresses())) {
    connected({MeetingPoint::Kind::kTcp, address, point.port});
  }
  expect_a_meeting(*host, {MeetingPoint::Kind::kTcp, "127.0.0.1", point.port});
}

// Others that connect there would reach the program, though rank 0 could listen at ::1.
TEST(RendezvousOverTcp, APortThatIsTakenAtOneAddressIsAnError) {
  const TcpListener other = listen_on("0.0.0.0");
  const MeetingPoint point{MeetingPoint::Kind::kTcp, host_name(), other.at.port};
  const Status status = status_of([&] { attend({point, 0, 2, kKey}, in(kSoon)); });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(":" + std::to_string(point.port) + ": Address already in use"),
                    HasSubstr("HVD_RENDEZVOUS=tcp://host:port")));
}

TEST(RendezvousServer, GarbageAndCutMessagesDoNotDisturbIt) {
  const MeetingPoint point = tcp_point();
  const auto host = attend({point, 0, 2, kKey}, in(kPlenty));
  const Bytes hello = caller(1, "another key").take_output();
  std::vector<TcpDescriptor> peers;
  for (std::size_t cut = 0; cut <= hello.size(); ++cut) {
    peers.push_back(connected(point));
    say(peers.back(), std::span(hello).first(cut));  // and nothing more
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    Bytes altered = hello;
    altered[random() % altered.size()] ^= static_cast<std::byte>(1 + random() % 255);
    altered.resize(random() % 300);
    peers.push_back(connected(point));
    say(peers.back(), altered);
    if (i % 2 == 0) peers.back().reset();
  }
  expect_a_meeting(*host, point);
}

// Whatever follows the handshake of who does not know the key: it is not read.
TEST(RendezvousServer, WithoutTheKeyNobodyIsARank) {
  const MeetingPoint point = tcp_point();
  const auto host = attend({point, 0, 2, kKey}, in(kPlenty));
  std::vector<TcpDescriptor> peers;
  for (const RendezvousHello& hello : {RendezvousHello{2, 77}, RendezvousHello{9, 77}}) {
    for (const Rank rank : {1, 9}) {
      peers.push_back(connected(point));
      Bytes all = caller(rank, "another key").take_output();
      all.resize(all.size() + kConfirmBytes);
      ByteWriter out(all);
      const Bytes payload = encode_fields(hello);
      out.put(static_cast<std::uint32_t>(payload.size()));
      out.put(FrameType::kHello);
      out.put(kNoRank);
      all.insert(all.end(), payload.begin(), payload.end());
      say(peers.back(), all);
    }
  }
  expect_a_meeting(*host, point);
}

TEST(RendezvousServer, PeersThatNeverStopTalkingDoNotMoveTheDeadline) {
  const MeetingPoint point = tcp_point();
  const auto host = attend({point, 0, 2, kKey}, in(kPlenty));
  std::atomic<bool> over = false;
  std::thread peer([&] {
    while (!over) {
      std::string why;  // once the host has given up, nobody takes what comes
      const TcpDescriptor fd = connect_to(point, kPlenty, in(kPlenty), why);
      if (fd) ::send(fd.get(), "H", 1, MSG_NOSIGNAL);
    }
  });
  const Status status = status_of([&] { host->all_gather("a", in(kSoon)); });
  over = true;
  peer.join();
  EXPECT_EQ(status.code(), StatusCode::kStalled);
}

TEST(RendezvousServer, ACrowdOfSilentPeersPushesNoRankOut) {
  const MeetingPoint point = unix_point();
  const auto host = attend({point, 0, 3, ""}, in(kPlenty));
  std::vector<TcpDescriptor> peers;
  std::atomic<bool> crowded = false;
  run_ranks(3, [&](Rank rank) {
    if (rank == 0) {
      EXPECT_EQ(host->all_gather("x", in(kPlenty)).size(), 3u);
      return;
    }
    while (rank == 2 && !crowded) std::this_thread::yield();
    const auto others = attend({point, rank, 3, ""}, in(kPlenty));
    for (int i = 0; rank == 1 && i < 300; ++i) peers.push_back(connected(point));
    if (rank == 1) crowded = true;
    EXPECT_EQ(others->all_gather("x", in(kPlenty)).size(), 3u);
  });
}

TEST(RendezvousServer, ARankOutOfRangeThatHasTheKeyEndsTheMeetingByName) {
  const MeetingPoint point = unix_point();
  const auto host = attend({point, 0, 2, kKey}, in(kPlenty));
  run_ranks(2, [&](Rank rank) {
    const Status status = status_of([&] {
      if (rank == 0) host->all_gather("a", in(kPlenty));
      if (rank == 1) attend({point, 7, 2, kKey}, in(kPlenty));
    });
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 7 (process"), HasSubstr("1 to 1")));
  });
}

TEST(RendezvousServer, TheDeadlineTellsOfARankWithAnotherKey) {
  const MeetingPoint point = tcp_point();
  const auto host = attend({point, 0, 2, kKey}, in(kPlenty));
  std::atomic<bool> gone = false;
  run_ranks(2, [&](Rank rank) {
    if (rank == 1) {
      const Meeting meeting{point, 1, 2, "the key of another job"};
      EXPECT_THROW(attend(meeting, in(kPlenty)), PeerLostError);
      gone = true;
      return;
    }
    const Status status = test::first_good_within(
        kSoon, [&](Duration limit) { return status_of([&] { host->all_gather("a", in(limit)); }); },
        [&](const Status&) { return gone.load(); });
    EXPECT_EQ(status.code(), StatusCode::kStalled);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("rank(s) 1"), HasSubstr("a peer that said it was rank 1 left"),
                      HasSubstr("HVD_RENDEZVOUS_KEY")));
  });
}

// Time of a processor that the calling thread has used.
Duration processor_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST(RendezvousServer, OutOfDescriptorsItWaitsInsteadOfSpinning) {
  const MeetingPoint point = unix_point();
  const auto host = attend({point, 0, 2, ""}, in(kPlenty));
  const TcpDescriptor waits = connected(point);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{64, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  std::vector<UniqueFd> all;
  for (UniqueFd fd(dup(0)); fd; fd = UniqueFd(dup(0))) all.push_back(std::move(fd));
  const Duration start = processor_time();
  const Status status = status_of([&] { host->all_gather("a", in(std::chrono::seconds(2))); });
  const Duration used = processor_time() - start;
  all.clear();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(status.code(), StatusCode::kStalled);
  EXPECT_LT(used, std::chrono::milliseconds(400)) << "of 2 s";
  run_ranks(2, [&](Rank rank) {
    const std::vector<std::string> both = {"a", "a"};
    if (rank == 0) {
      EXPECT_EQ(host->all_gather("a", in(kPlenty)), both);
    }
    if (rank == 1) {
      EXPECT_EQ(attend({point, 1, 2, ""}, in(kPlenty))->all_gather("a", in(kPlenty)), both);
    }
  });
}

TEST(RendezvousServer, TheDeadlineTellsWhoWasSentAway) {
  const MeetingPoint point = tcp_point();
  const auto host = attend({point, 0, 2, kKey}, in(kPlenty));
  const TcpDescriptor fd = connected(point);
  const std::string text = "GET / HTTP/1.1\r\n\r\n";
  say(fd, std::as_bytes(std::span(text)));
  const Status status = status_of([&] { host->all_gather("a", in(kSoon)); });
  EXPECT_EQ(status.code(), StatusCode::kStalled);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank(s) 1"), HasSubstr("GET / HTTP/1.1")));
}

// Something that is not rank 0 listens; `says` is what it sends to whoever comes.
Status outcome_with_listener(const std::string& says, Duration limit) {
  const TcpListener listener = listen_on("127.0.0.1");
  const MeetingPoint point{MeetingPoint::Kind::kTcp, "127.0.0.1", listener.at.port};
  std::thread service([&] {
    pollfd ready{listener.socket.get(), POLLIN, 0};
    poll(&ready, 1, 20000);
    const TcpDescriptor fd = accept_from(listener.socket.get(), kPlenty);
    if (!says.empty()) say(fd, std::as_bytes(std::span(says)));
    char byte = 0;
    while (recv(fd.get(), &byte, 1, 0) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const Status status = status_of([&] { attend({point, 1, 2, kKey}, in(limit)); });
  service.join();
  return status;
}

TEST(RendezvousClient, AnotherServiceOnThePortIsQuoted) {
  const Status status = outcome_with_listener("SSH-2.0-OpenSSH_9.2\r\n", kPlenty);
  EXPECT_EQ(status.code(), StatusCode::kTransport);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rank 1"), HasSubstr("SSH-2.0-OpenSSH_9.2")));
}

TEST(RendezvousClient, AServiceThatSaysNothingIsGivenUpAtTheDeadline) {
  const Status status = outcome_with_listener("", kSoon);
  EXPECT_EQ(status.code(), StatusCode::kStalled);
  EXPECT_THAT(status.message(), HasSubstr("does not answer"));
}

TEST(RendezvousClient, TakesLittleOfWhoDoesNotKnowTheKey) {
  const TcpListener listener = listen_on("127.0.0.1");
  const MeetingPoint point{MeetingPoint::Kind::kTcp, "127.0.0.1", listener.at.port};
  std::size_t taken = 0;  // bytes
  std::thread service([&] {
    pollfd ready{listener.socket.get(), POLLIN, 0};
    poll(&ready, 1, 20000);
    const TcpDescriptor fd = accept_from(listener.socket.get(), kPlenty);
    const Bytes much(1 << 20);
    for (pollfd room{fd.get(), POLLOUT, 0}; poll(&room, 1, 20000) == 1;) {
      const ssize_t sent = ::send(fd.get(), much.data(), much.size(), MSG_NOSIGNAL);
      if (sent < 0) return;
      taken += static_cast<std::size_t>(sent);
    }
  });
  EXPECT_THROW(attend({point, 1, 2, kKey}, in(kPlenty)), PeerLostError);
  service.join();
  EXPECT_LT(taken, 64u << 20);  // what the system's buffers of both ends hold
}

// Rank 0 of yesterday is stopped, say: it listens and will not answer. Its file is removed, today's
// rank 0 leaves another one.
TEST(RendezvousClient, LooksAgainWhenWhoListensDoesNotAnswer) {
  const MeetingPoint point = file_point();
  const MeetingPoint yesterday = unix_point();
  const UniqueFd stopped = listen_locally(yesterday.where);
  const auto note = [&point](const MeetingPoint& socket) {
    const std::string draft = point.where + ".draft";
    std::ofstream(draft) << "horovod_cpp rendezvous 2\n"
                         << boot_id() << "\n"
                         << socket.where << "\nsecret\n";
    std::filesystem::rename(draft, point.where);
  };
  note(yesterday);
  run_ranks(2, [&](Rank rank) {
    if (rank == 1) {
      const auto guest = attend({point, 1, 2, ""}, in(std::chrono::minutes(5)));
      EXPECT_EQ(guest->all_gather("x", in(kPlenty)).size(), 2u);
      return;
    }
    pollfd ready{stopped.get(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 60'000), 1);  // the guest is in yesterday's queue
    const MeetingPoint today = unix_point();
    const auto host = attend({today, 0, 2, "secret"}, in(kPlenty));
    note(today);
    EXPECT_EQ(host->all_gather("x", in(std::chrono::minutes(5))).size(), 2u);
  });
  std::filesystem::remove(point.where);
}

}  // namespace
}  // namespace hvd::engine::test
