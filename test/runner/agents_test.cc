// hvdrun's side of its agents; the test is the agents, over real sockets.
#include "runner/agents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <deque>

#include "core/system/host.h"

namespace hvd::runner {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

class AgentsTest : public testing::Test {
 protected:
  // An agent whose host's clock is `ahead` of hvdrun's.
  struct Agent {
    Connection connection;
    Duration ahead;
  };

  Agent& welcome(int number, Duration ahead, const std::string& boot) {
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
    agents_.welcome({number, Connection(engine::TcpDescriptor(pair[0]))}, Clock::now());
    Agent& agent = ours_.emplace_back(Agent{Connection(engine::TcpDescriptor(pair[1])), ahead});
    agent.connection.say(Hello{"host" + std::to_string(number), boot, 0, 0});
    return agent;
  }
  void serve() {
    std::vector<pollfd> polls;
    agents_.add_polls(polls);
    poll(polls.data(), polls.size(), 0);
    for (AgentEvent& event : agents_.serve(polls, Clock::now())) {
      if (const auto* end = std::get_if<RankEnd>(&event)) ends_.push_back(*end);
    }
  }
  // What hvdrun has said since.
  std::vector<MessageType> listen(Agent& agent) {
    std::vector<MessageType> types;
    agent.connection.read();
    while (const auto message = agent.connection.next()) {
      types.push_back(message->type);
      if (message->type != MessageType::kClockQuestion) continue;
      const TimePoint there = Clock::now() + agent.ahead;
      agent.connection.say(ClockAnswer{read<ClockQuestion>(*message).asked, there});
    }
    return types;
  }
  static void end(Agent& agent, int rank, TimePoint at) {
    agent.connection.say(ProgramEnd{.value = 1, .time = at + agent.ahead}, rank);
  }

  // The last one has two ranks.
  Agents agents_{{{0}, {1}, {2, 3}}, seconds(10)};
  std::deque<Agent> ours_;
  std::vector<RankEnd> ends_;
};

TEST_F(AgentsTest, TakeOneThatDoesNotAnswerForLostButNotWhileHvdrunWasStopped) {
  Agent& answers = welcome(0, {}, "boot");
  welcome(1, {}, "boot");
  serve();
  TimePoint now = Clock::now();
  agents_.tick(now);
  agents_.tick(now += hours(1));
  serve();
  EXPECT_TRUE(ends_.empty());
  for (int second = 0; second < 12; ++second) {
    agents_.tick(now += seconds(1));
    listen(answers);
    serve();
  }
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].rank, 1);
  EXPECT_EQ(ends_[0].host, "host1");
  EXPECT_THAT(describe_end(ends_[0], "x"), testing::HasSubstr("did not answer for 10 s"));
}

TEST_F(AgentsTest, GiveANumberToOneThatHasNone) {
  welcome(0, {}, "boot");
  welcome(kAnyNumber, {}, "boot");
  EXPECT_THAT(agents_.missing(), ElementsAre(2, 3));
  welcome(kAnyNumber, {}, "boot");
  EXPECT_FALSE(agents_.expects(kAnyNumber));
}

TEST_F(AgentsTest, OrderEndsByClocksThatWereCompared) {
  Agent& early = welcome(0, hours(1), "another machine");
  Agent& late = welcome(1, -hours(1), "a third one");
  for (int i = 0; i < 3; ++i) {
    listen(early);
    listen(late);
    serve();
  }
  const TimePoint now = Clock::now();
  end(late, 1, now);
  end(early, 0, now - seconds(10));
  serve();
  ASSERT_EQ(ends_.size(), 2u);
  const RankEnd* first = first_failure(ends_);
  EXPECT_EQ(first->rank, 0) << "by the hosts' own clocks it would be the other";
  EXPECT_LT(first->at - (now - seconds(10)), seconds(5));
  EXPECT_EQ(first->host, "host0");
}

TEST_F(AgentsTest, TakeTheArrivalWhereNothingIsKnownOfAClock) {
  const TimePoint before = Clock::now();
  end(welcome(0, -hours(1), "another machine"), 0, before);
  serve();
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_GE(ends_[0].at, before);
}

TEST_F(AgentsTest, OfThisMachineHaveItsClock) {
  const TimePoint at = Clock::now() - seconds(3);
  end(welcome(0, {}, engine::boot_id()), 0, at);
  serve();
  EXPECT_EQ(ends_.at(0).at, at);
}

TEST_F(AgentsTest, MayOnlySayMoreWhenTheirOutputWasTaken) {
  Agent& agent = welcome(2, {}, engine::boot_id());
  agent.connection.say(Output{Stream::kStdout, "123"}, 2);
  agent.connection.say(Output{Stream::kStdout, "of its other rank"}, 3);
  agent.connection.say(Output{Stream::kStderr, "4567"}, 2);
  serve();
  EXPECT_THAT(listen(agent), ElementsAre(MessageType::kClockQuestion));
  agents_.take_more();
  agents_.take_more();
  agent.connection.read();
  for (const auto& [rank, bytes] : {std::pair(2, 7u), std::pair(3, 17u)}) {
    const auto message = agent.connection.next();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->rank, rank);
    EXPECT_EQ(read<Taken>(*message).bytes, bytes);
  }
  EXPECT_FALSE(agent.connection.next().has_value());
}

TEST_F(AgentsTest, ThatVanishCountAsFailures) {
  welcome(2, {}, engine::boot_id()).connection.close();
  serve();  // what it said
  serve();  // its end
  ASSERT_EQ(ends_.size(), 2u) << "one per rank";
  EXPECT_EQ(ends_[0].end.kind, EndKind::kLost);
  EXPECT_EQ(ends_[1].rank, 3);
  EXPECT_TRUE(agents_.none());
  EXPECT_THAT(agents_.missing(), ElementsAre(0, 1));
}

TEST_F(AgentsTest, ThatComeTwiceAreHeardOnce) {
  welcome(1, {}, engine::boot_id());
  Agent& second = welcome(1, {}, engine::boot_id());
  end(second, 1, Clock::now());
  serve();
  EXPECT_TRUE(ends_.empty());
}

TEST_F(AgentsTest, AreToldToStopWheneverTheyCome) {
  Agent& before = welcome(0, {}, engine::boot_id());
  agents_.stop(15);
  Agent& after = welcome(1, {}, engine::boot_id());
  EXPECT_THAT(listen(before), ElementsAre(MessageType::kClockQuestion, MessageType::kStop));
  EXPECT_THAT(listen(after), ElementsAre(MessageType::kStop, MessageType::kClockQuestion));
}

TEST_F(AgentsTest, AreToldWhatToRunWhenAllAreThere) {
  Agent& first = welcome(0, {}, engine::boot_id());
  welcome(1, {}, engine::boot_id());
  serve();
  EXPECT_TRUE(agents_.facts().empty());
  Agent& last = welcome(2, {}, engine::boot_id());
  EXPECT_TRUE(agents_.facts().empty()) << "it has said nothing of its host";
  serve();
  ASSERT_EQ(agents_.facts().size(), 3u);
  EXPECT_EQ(agents_.facts()[2].name, "host2");
  agents_.pass_on(10);  // before there are programs
  agents_.run(std::vector<Start>(4));
  EXPECT_TRUE(agents_.facts().empty());
  EXPECT_THAT(listen(first),
              ElementsAre(MessageType::kClockQuestion, MessageType::kStart, MessageType::kSignal));
  EXPECT_THAT(listen(last), ElementsAre(MessageType::kClockQuestion, MessageType::kStart,
                                        MessageType::kStart, MessageType::kSignal));
}

TEST_F(AgentsTest, SpeakForTheirOwnRanksOnly) {
  end(welcome(0, {}, engine::boot_id()), 1, Clock::now());
  serve();
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].rank, 0);
  EXPECT_EQ(ends_[0].end.kind, EndKind::kLost);
}

}  // namespace
}  // namespace hvd::runner
