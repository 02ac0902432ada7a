#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/mpi/mpi_world.h"
#include "test/support/collective_contract.h"
#include "test/support/control_plane_contract.h"

// Leaves a broken world behind, so each case is a run of its own.
namespace hvd::test {
namespace {

using ::testing::HasSubstr;

TEST(Abort, EndsACollectiveThatWaits) {
  const Topology here = ports().control->topology();
  collective_abort_contract().run(*ports().collectives.front(), here.rank, here.size);
  ports().collectives.front()->abort();  // the last rank too: it must not wait in MPI_Finalize
}

TEST(Abort, LosesTheRankOnAllOthersWithItsReason) {
  ControlPlane& plane = *ports().control;
  const Rank last = plane.topology().size - 1;
  if (plane.topology().rank == last) {
    plane.abort({StatusCode::kInternal, "out of cheese"});
    return;
  }
  try {
    next_message(plane);
    FAIL() << "a message instead of an error";
  } catch (const LostRankError& error) {  // thrown by code with its own copy of the class
    EXPECT_EQ(error.rank(), last);
    EXPECT_THAT(error.what(), HasSubstr("out of cheese"));
    plane.abort(error.status());
  }
}

}  // namespace
}  // namespace hvd::test
