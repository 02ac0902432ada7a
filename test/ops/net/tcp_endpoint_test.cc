#include "ops/net/tcp_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ops/net/channel.h"

namespace hvd::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> ip(std::initializer_list<int> numbers) {
  std::vector<std::byte> bytes;
  for (const int number : numbers) bytes.push_back(static_cast<std::byte>(number));
  return bytes;
}

const std::vector<LocalAddress> kLocal = {
    {"lo", "127.0.0.1", ip({127, 0, 0, 1}), ip({255, 0, 0, 0})},
    {"eth0", "10.1.2.3", ip({10, 1, 2, 3}), ip({255, 255, 0, 0})},
    {"docker0", "172.17.0.1", ip({172, 17, 0, 1}), ip({255, 255, 0, 0})},
    {"ib0", "192.168.9.3", ip({192, 168, 9, 3}), ip({255, 255, 255, 0})},
};

TEST(TcpAddresses, AllAreTriedLoopbackLast) {
  EXPECT_THAT(addresses_of("", kLocal),
              ElementsAre("10.1.2.3", "172.17.0.1", "192.168.9.3", "127.0.0.1"));
}

TEST(TcpAddresses, OfTheInterfacesThatWereChosenInThatOrder) {
  EXPECT_THAT(addresses_of("ib0,eth0", kLocal), ElementsAre("192.168.9.3", "10.1.2.3"));
}

TEST(TcpAddresses, AnInterfaceThatIsNotThereIsAnErrorThatNamesThoseThatAre) {
  try {
    addresses_of("eth0,eth7", kLocal);
    FAIL() << "took eth7";
  } catch (const InvalidArgumentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("HOROVOD_GLOO_IFACE='eth0,eth7'"),
                                    HasSubstr("'eth7'"), HasSubstr("lo, eth0, docker0, ib0")));
  }
}

TEST(TcpAddresses, ThoseOfACommonNetworkComeFirstAndOwnOnesLast) {
  std::vector<TcpAddress> peers;
  for (const char* host : {"172.17.0.1", "8.8.8.8", "10.1.200.7", "127.0.0.1", "192.168.9.77"}) {
    peers.push_back({host, 4711});
  }
  EXPECT_THAT(in_order_of_promise(peers, kLocal),
              ElementsAre(TcpAddress{"10.1.200.7", 4711}, TcpAddress{"192.168.9.77", 4711},
                          TcpAddress{"8.8.8.8", 4711}, TcpAddress{"172.17.0.1", 4711},
                          TcpAddress{"127.0.0.1", 4711}));
}

TEST(TcpAddresses, ThisMachineHasOne) {
  EXPECT_FALSE(addresses_of("", local_addresses()).empty());
}

// The second of two ports of which the first is free: below those that the system gives whoever
// asks for any, as a neighbour of such a one is often taken.
TcpListener behind_a_free_port() {
  for (auto port = static_cast<std::uint16_t>(20000 + getpid() % 10000);; ++port) {
    const auto next = static_cast<std::uint16_t>(port + 1);
    try {
      listen_on("127.0.0.1", {port, port});
      return listen_on("127.0.0.1", {next, next});
    } catch (const InvalidArgumentError&) {
    }
  }
}

TEST(ListenOn, TriesEveryPortOfARangeWhereverItBegins) {
  const TcpListener taken = behind_a_free_port();
  const std::uint16_t port = taken.at.port;
  const PortRange two{static_cast<std::uint16_t>(port - 1), port};
  for (const unsigned skip : {0U, 1U, UINT32_MAX}) {
    EXPECT_EQ(listen_on("127.0.0.1", two, skip).at.port, two.first) << skip;
  }
  EXPECT_THROW(listen_on("127.0.0.1", {port, port}, 1), InvalidArgumentError);
}

TEST(TcpEndpoints, AreReadAsTheyWereWritten) {
  const TcpEndpoint endpoint = {{{"10.0.0.1", 4711}, {"fd00::1", 12}}};
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, endpoint);
  ByteReader in(bytes);
  const TcpEndpoint read = deserialize<TcpEndpoint>(in);
  in.expect_end();
  EXPECT_EQ(read.addresses, endpoint.addresses);
  EXPECT_EQ(to_string(read.addresses[0]), "10.0.0.1:4711");
  EXPECT_EQ(to_string(read.addresses[1]), "[fd00::1]:12");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    ByteReader truncated({bytes.data(), length});
    EXPECT_THROW(deserialize<TcpEndpoint>(truncated), PeerLostError) << length;
  }
}

TEST(ChannelFrames, ComeOutAsTheyWentInHoweverTheBytesAreCut) {
  Bytes stream;
  for (const std::size_t length : {0u, 1u, 7u, 8u, 9u, 300u}) {
    append_frame(stream, 1, 5, Bytes(length, std::byte{1}));
  }
  for (const std::size_t step : {std::size_t{1}, std::size_t{5}, std::size_t{9}, stream.size()}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const TcpDescriptor from(ends[0]);
    Channel channel(TcpDescriptor(ends[1]), std::nullopt, {.types = 2, .most = 1000});
    std::vector<std::size_t> lengths;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      const std::size_t count = std::min(step, stream.size() - at);
      ASSERT_EQ(write(from.get(), stream.data() + at, count), static_cast<ssize_t>(count));
      EXPECT_TRUE(channel.read());
      while (const auto frame = channel.next()) {
        EXPECT_EQ(frame->rank, 5);
        lengths.push_back(frame->payload.size());
      }
    }
    EXPECT_THAT(lengths, ElementsAre(0, 1, 7, 8, 9, 300)) << "in steps of " << step;
  }
}

}  // namespace
}  // namespace hvd::engine
