// The contract of Runtime between processes that mpirun starts.

#include <gtest/gtest.h>

#include "core/base/config.h"
#include "core/base/launch_info.h"
#include "ops/backends.h"
#include "test/mpi/failure_printer.h"
#include "test/support/runtime_contract.h"

namespace hvd::test {
namespace {

class RuntimeContract : public testing::TestWithParam<RuntimeCase> {};

TEST_P(RuntimeContract, Holds) {
  Ports ports = connect(read_config());
  const bool in_error =
      run_case(GetParam(), std::move(ports.control), std::move(ports.collectives.front()));
  ports.ended(in_error);
}

std::string name_of_case(const testing::TestParamInfo<RuntimeCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, RuntimeContract, testing::ValuesIn(runtime_contract()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Leaving, RuntimeContract, testing::ValuesIn(runtime_leaving_contract()),
                         name_of_case);
// Each is a run of its own: see failures.sh.
INSTANTIATE_TEST_SUITE_P(Failures, RuntimeContract, testing::ValuesIn(runtime_failure_contract()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Deaths, RuntimeContract, testing::ValuesIn(runtime_death_contract()),
                         name_of_case);

}  // namespace
}  // namespace hvd::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hvd::test::print_by_rank(hvd::read_launch_info().rank.value_or(0));
  return RUN_ALL_TESTS();
}
