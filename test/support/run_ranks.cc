#include "test/support/run_ranks.h"

#include <gtest/gtest.h>

#include <exception>
#include <thread>
#include <vector>

namespace hvd::engine::test {

void run_ranks(int size, const std::function<void(Rank)>& body) {
  std::vector<std::jthread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&body, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << " threw: " << error.what();
      }
    });
  }
}

}  // namespace hvd::engine::test
