// The contract of a Collective over TCP, with ranks that are threads of this process.

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "ops/host/message_collective.h"
#include "ops/net/tcp_link.h"
#include "test/ops/net/tcp_world.h"
#include "test/support/collective_contract.h"
#include "test/support/run_ranks.h"

namespace hvd::engine::test {
namespace {

struct Flavour {
  std::string name;
  host::MessageLimits limits = TcpLink::kLimits;
  int receive_buffer = 0;  // bytes; 0: what the system gives
};

const Flavour kDefault = {"Default"};
// Nothing goes whole to everyone, and every batch takes many pieces.
const Flavour kTiny = {"Tiny", {.small_bytes = 0, .piece_bytes = 4096, .pieces = 2}};
// Messages do not fit their sockets. With less than a segment of the loopback's (64 KiB), TCP
// itself sends only now and then.
const Flavour kSmallBuffers = {
    "SmallBuffers", {.small_bytes = 0, .piece_bytes = std::size_t{1} << 20, .pieces = 2}, 64 << 10};

struct TcpRanks {
  TcpRanks(int size, const Flavour& flavour) {
    ListeningRanks ranks(size);
    for (const auto& listeners : ranks.listeners) {
      for (const TcpListener& listener : listeners) {
        const int bytes = flavour.receive_buffer;  // accepted sockets inherit it
        if (bytes == 0) continue;
        setsockopt(listener.socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
      }
    }
    for (int rank = 0; rank < size; ++rank) {
      planes.push_back(ranks.plane(rank));
      collectives.push_back(std::make_unique<host::MessageCollective>(
          std::make_shared<TcpLink>(*planes.back(), flavour.limits)));
    }
  }

  std::vector<std::unique_ptr<TcpControlPlane>> planes;
  std::vector<std::unique_ptr<Collective>> collectives;
};

using Parameters = std::tuple<Flavour, CollectiveCase>;

class TcpCollectiveContract : public ::testing::TestWithParam<Parameters> {};

TEST_P(TcpCollectiveContract, Holds) {
  const auto& [flavour, contract] = GetParam();
  for (const int size : {2, 3, 4}) {
    TcpRanks ranks(size, flavour);
    run_ranks(size, [&, &run = contract.run, count = size](Rank rank) {
      run(*ranks.collectives[static_cast<std::size_t>(rank)], rank, count);
    });
  }
}

std::string name_of_case(const ::testing::TestParamInfo<Parameters>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(All, TcpCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault, kTiny, kSmallBuffers),
                                            ::testing::ValuesIn(collective_contract())),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Abort, TcpCollectiveContract,
                         ::testing::Combine(::testing::Values(kDefault, kTiny),
                                            ::testing::Values(collective_abort_contract())),
                         name_of_case);

}  // namespace
}  // namespace hvd::engine::test
