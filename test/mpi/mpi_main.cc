#include <gtest/gtest.h>

#include <cstdio>

#include "core/base/config.h"
#include "test/mpi/mpi_world.h"

namespace hvd::test {
namespace {

// For all ranks but 0, whose output is the usual one.
class FailurePrinter final : public ::testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name(), result.line_number(),
                 result.message());
  }

 private:
  int rank_;
};

std::unique_ptr<Ports> the_ports;

}  // namespace

Ports& ports() {
  return *the_ports;
}

void reconnect() {
  the_ports.reset();
  the_ports = std::make_unique<Ports>(connect(read_config()));
}

}  // namespace hvd::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const int rank = hvd::read_launch_info().rank.value_or(0);
  if (rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new hvd::test::FailurePrinter(rank));
  }
  hvd::test::reconnect();
  const int result = RUN_ALL_TESTS();
  hvd::test::the_ports.reset();
  return result;
}
