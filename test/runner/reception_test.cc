// Unauthenticated peers and agents at hvdrun's port, over real sockets and with a clock of the
// test's own.
#include "runner/link/reception.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "ops/net/tcp_socket.h"
#include "runner/link/connection.h"

namespace hvd::runner {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

const std::vector<std::string> kLoopback = {"127.0.0.1"};

class ReceptionTest : public testing::Test {
 protected:
  engine::TcpDescriptor connect() {
    const engine::TcpAddress& at = reception_.address().endpoints.front();
    engine::TcpDescriptor socket = engine::connect_to(at, hours(1));
    EXPECT_TRUE(socket);
    return socket;
  }
  // Serves until nothing is ready; the test's connections are of this machine, so what was sent is
  // here.
  void serve() {
    while (true) {
      std::vector<pollfd> polls;
      reception_.add_polls(polls);
      const int ready = poll(polls.data(), polls.size(), 0);
      for (auto& agent : reception_.serve(polls, now_)) agents_.push_back(std::move(agent));
      if (ready <= 0) return;
    }
  }
  static std::vector<std::byte> receive(const engine::TcpDescriptor& socket, std::size_t bytes) {
    std::vector<std::byte> got(bytes);
    const ssize_t count = recv(socket.get(), got.data(), got.size(), MSG_DONTWAIT);
    got.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
    return got;
  }
  static bool hung_up(const engine::TcpDescriptor& socket) {
    std::byte byte{};
    return recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN);
  }
  static void say(const engine::TcpDescriptor& socket, const Bytes& bytes) {
    ASSERT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // All steps of an agent's handshake with this key.
  engine::TcpDescriptor call(std::string key, int rank) {
    engine::TcpDescriptor socket = connect();
    engine::Handshake handshake =
        engine::Handshake::caller(std::as_bytes(std::span(key)), kTerms, rank);
    say(socket, handshake.take_output());
    serve();
    handshake.take(receive(socket, 1024));
    Bytes proof = handshake.take_output();
    proof.resize(engine::kConfirmBytes);  // without the key a guess
    say(socket, proof);
    serve();
    return socket;
  }

  std::vector<int> expected_ = {0, 1};
  Reception reception_{kLoopback, {}, std::string(64, 'a'), 2, hours(1), [this](int rank) {
                         return std::find(expected_.begin(), expected_.end(), rank) !=
                                expected_.end();
                       }};
  std::vector<Reception::Agent> agents_;
  TimePoint now_{seconds(1000)};
};

TEST_F(ReceptionTest, LetsInWhoKnowsTheKey) {
  const engine::TcpDescriptor agent = call(reception_.address().key, 1);
  ASSERT_EQ(agents_.size(), 1u);
  EXPECT_EQ(agents_[0].number, 1);
  EXPECT_EQ(reception_.unauthenticated(), 0u);
  EXPECT_EQ(reception_.next_deadline(), TimePoint::max());
}

TEST_F(ReceptionTest, RefusesAnotherKeyAndARankThatIsNotExpected) {
  const engine::TcpDescriptor peer = call("00112233", 1);
  const engine::TcpDescriptor unknown = call(reception_.address().key, 2);
  EXPECT_TRUE(hung_up(unknown));
  EXPECT_TRUE(hung_up(peer));
  EXPECT_TRUE(agents_.empty());
  EXPECT_EQ(reception_.unauthenticated(), 0u);
}

TEST_F(ReceptionTest, HangsUpOnNonsense) {
  const engine::TcpDescriptor peer = connect();
  const std::string http =
      "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything else too\r\n\r\n";
  const auto bytes = std::as_bytes(std::span(http));
  say(peer, Bytes(bytes.begin(), bytes.end()));
  serve();
  EXPECT_EQ(reception_.unauthenticated(), 0u);
  EXPECT_TRUE(hung_up(peer));
}

TEST_F(ReceptionTest, GivesASilentPeerALimitedTime) {
  const engine::TcpDescriptor peer = connect();
  serve();
  EXPECT_EQ(reception_.unauthenticated(), 1u);
  EXPECT_EQ(reception_.next_deadline(), now_ + Reception::kUnauthenticatedLimit);
  now_ += Reception::kUnauthenticatedLimit;
  serve();
  EXPECT_EQ(reception_.unauthenticated(), 0u);
  EXPECT_TRUE(hung_up(peer));
}

TEST_F(ReceptionTest, HoldsAFewUnauthenticatedPeersAndLetsAgentsPastThem) {
  std::vector<engine::TcpDescriptor> peers;
  for (int i = 0; i < 500; ++i) {
    peers.push_back(connect());
    if (i % 50 == 0) serve();
  }
  serve();
  EXPECT_EQ(reception_.unauthenticated(), Reception::kMaxUnauthenticatedPeers + 2);
  EXPECT_TRUE(hung_up(peers.front()));
  const engine::TcpDescriptor agent = call(reception_.address().key, 0);
  EXPECT_EQ(agents_.size(), 1u);
}

TEST_F(ReceptionTest, RestsWithoutDescriptorsAndFreesOne) {
  const engine::TcpDescriptor peer = connect();
  serve();
  const engine::TcpDescriptor agent = connect();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::vector<pollfd> polls;
  reception_.add_polls(polls);
  poll(polls.data(), polls.size(), 0);
  reception_.serve(polls, now_);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(reception_.unauthenticated(), 0u);
  EXPECT_TRUE(hung_up(peer));
  polls.clear();
  reception_.add_polls(polls);
  EXPECT_EQ(polls[0].fd, -1) << "poll() would return at once, again and again";
  now_ = reception_.next_deadline();
  serve();
  serve();
  EXPECT_EQ(reception_.unauthenticated(), 1u);
}

TEST_F(ReceptionTest, ListensOnWhatItPublishesOnly) {
  ASSERT_EQ(reception_.address().endpoints.size(), 1u);
  EXPECT_EQ(reception_.address().endpoints[0].host, "127.0.0.1");
  EXPECT_EQ(listening_addresses(false, "no-such-interface"), kLoopback);
  EXPECT_EQ(listening_addresses(true, "lo").front(), kLoopback.front());
}

}  // namespace
}  // namespace hvd::runner
