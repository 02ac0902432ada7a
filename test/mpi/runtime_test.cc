// The contract of Runtime between processes that mpirun starts, or test/hosts/contract.sh without
// MPI.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "ops/connect/backends.h"
#include "test/core/runtime/forwarding_collective.h"
#include "test/core/runtime/submissions.h"
#include "test/mpi/failure_printer.h"
#include "test/mpi/shared_folder.h"
#include "test/support/runtime_contract.h"

namespace hvd::engine::test {
namespace {

class RuntimeContract : public testing::TestWithParam<RuntimeCase> {};

TEST_P(RuntimeContract, Holds) {
  Ports ports = connect(read_config());
  const bool in_error =
      run_case(GetParam(), std::move(ports.control), std::move(ports.collectives.front()));
  if (ports.ended) ports.ended(in_error);  // MPI has to be told
}

std::string name_of_case(const testing::TestParamInfo<RuntimeCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, RuntimeContract, testing::ValuesIn(runtime_contract()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Leaving, RuntimeContract, testing::ValuesIn(runtime_leaving_contract()),
                         name_of_case);

constexpr const char* kPosted = "posted";

// Announces that it has posted its messages.
class AnnouncingOperation final : public Operation {
 public:
  explicit AnnouncingOperation(std::unique_ptr<Operation> inner) : inner_(std::move(inner)) {}

  bool advance() override {
    const bool finished = inner_->advance();  // the first call posts
    EXPECT_FALSE(finished) << "although rank 1 has not taken part";
    announce(kPosted);
    return finished;
  }
  bool withdraw() noexcept override { return inner_->withdraw(); }
  OperationStats stats() const override { return inner_->stats(); }

 private:
  std::unique_ptr<Operation> inner_;
};

class AnnouncingCollective final : public ForwardingCollective {
 public:
  using ForwardingCollective::ForwardingCollective;
  std::unique_ptr<Operation> all_reduce(std::span<const Slice> slices,
                                        const Reduction& reduction) override {
    return std::make_unique<AnnouncingOperation>(
        ForwardingCollective::all_reduce(slices, reduction));
  }
};

// A real collective of a rank that fails before it takes part, but once rank 0 has: an abort that
// comes earlier would find nothing posted there.
class FailingCollective final : public ForwardingCollective {
 public:
  using ForwardingCollective::ForwardingCollective;
  std::unique_ptr<Operation> all_reduce(std::span<const Slice>, const Reduction&) override {
    EXPECT_TRUE(wait_for(kPosted)) << "rank 0 has posted nothing for 30 s";
    throw InternalError("planted");
  }
};

// MPI cannot take back a send of what the last rank does not receive: the handle has ended, the
// caller has let go, and MPI may still read the tensor.
RuntimeCase memory_that_mpi_uses() {
  return {"MemoryThatMpiUsesIsKept",
          [](const RuntimePlace& at) {
            auto values = shared(std::vector<float>(8'000'000, 1));
            const std::weak_ptr<std::vector<float>> memory = values;
            {
              const Handle handle = at.runtime.submit(allreduce("x", values));
              values.reset();
              EXPECT_THROW(handle.wait(), Error);
            }
            EXPECT_TRUE(at.runtime.ended_in_error());
            at.runtime.shutdown();  // the engine holds nothing any more
            EXPECT_EQ(memory.expired(), at.rank == at.size - 1);
          },
          {},
          [](Rank rank, std::unique_ptr<Collective> inner) -> std::unique_ptr<Collective> {
            if (rank == 0) return std::make_unique<AnnouncingCollective>(std::move(inner));
            return std::make_unique<FailingCollective>(std::move(inner));
          }};
}

INSTANTIATE_TEST_SUITE_P(Memory, RuntimeContract, testing::Values(memory_that_mpi_uses()),
                         name_of_case);
// Each is a run of its own: see failures.sh.
INSTANTIATE_TEST_SUITE_P(Failures, RuntimeContract, testing::ValuesIn(runtime_failure_contract()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Deaths, RuntimeContract, testing::ValuesIn(runtime_death_contract()),
                         name_of_case);

}  // namespace
}  // namespace hvd::engine::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hvd::engine::test::print_by_rank(hvd::read_launch_info().rank.value_or(0));
  return RUN_ALL_TESTS();
}
