#include <gtest/gtest.h>

#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "test/mpi/failure_printer.h"
#include "test/mpi/mpi_world.h"

namespace hvd::engine::test {
namespace {

std::unique_ptr<Ports> the_ports;

}  // namespace

Ports& ports() {
  return *the_ports;
}

void reconnect() {
  the_ports.reset();
  the_ports = std::make_unique<Ports>(connect(read_config()));
}

}  // namespace hvd::engine::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  hvd::engine::test::print_by_rank(hvd::read_launch_info().rank.value_or(0));
  hvd::engine::test::reconnect();
  const int result = RUN_ALL_TESTS();
  hvd::engine::test::the_ports.reset();
  return result;
}
