// A rank whose thread for connections cannot go on.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <fstream>
#include <thread>

#include "test/ops/net/tcp_world.h"
#include "test/support/control_plane_contract.h"

namespace hvd::engine {
namespace {

// Sanitizers reserve more memory than there is, so it cannot be limited.
#ifndef HVD_SANITIZED

// This process may have no more than so much memory in addition to what it has.
void limit_memory(std::size_t more) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more;
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
}

// 0 if the rank that receives what it has no memory for gets an error that says so.
int receive_too_much() {
  test::ListeningRanks world(2);
  const auto zero = world.plane(0);
  auto rank = test::impersonate(1, 0, world.endpoints[0], world.key);
  rank.write(test::make_frame(TcpFrameKind::kMessage, test::text_message("small")));
  if (test::next_message(*zero).bytes != test::text_message("small")) return 2;
  std::thread sender([&rank] {
    rank.write(test::frame_header(TcpFrameKind::kMessage, std::uint32_t{kLongestFrame}));
    const Bytes piece(64 << 10);
    for (std::size_t sent = 0; sent < kLongestFrame; sent += piece.size()) rank.write(piece);
  });
  sender.detach();  // nobody reads what it says any more
  limit_memory(std::size_t{100} << 20);
  try {
    test::next_message(*zero);
  } catch (const InternalError& error) {
    const std::string why = error.what();
    const bool named = why.find("rank 0 on host node0 cannot go on") != std::string::npos;
    return named && why.find("bad_alloc") != std::string::npos ? 0 : 3;
  }
  return 4;
}

TEST(TcpControlPlane, WhatItsThreadCannotGoOnAfterIsAnErrorOfItsRank) {
  const pid_t child = fork();  // while there is one thread
  if (child == 0) _exit(receive_too_much());
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

#endif

}  // namespace
}  // namespace hvd::engine
