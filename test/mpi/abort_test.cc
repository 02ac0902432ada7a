#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "test/mpi/mpi_world.h"
#include "test/mpi/shared_folder.h"
#include "test/support/collective_contract.h"
#include "test/support/control_plane_contract.h"

// Leaves a broken world behind, so each case is a run of its own.
namespace hvd::engine::test {
namespace {

using ::testing::HasSubstr;

// Until ranks 0 to `end` - 1 have come here: without messages, which are no longer possible.
void meet(Rank rank, Rank end) {
  announce("here." + std::to_string(rank));
  for (Rank other = 0; other < end; ++other) {
    ASSERT_TRUE(wait_for("here." + std::to_string(other))) << "rank " << other << " did not come";
  }
}

TEST(Abort, EndsACollectiveThatWaits) {
  const Topology here = ports().control->topology();
  collective_abort_contract().run(*ports().collectives.front(), here.rank, here.size);
  ports().collectives.front()->abort();  // the last rank too: it must not wait in MPI_Finalize
}

TEST(Abort, LosesTheRankOnAllOthersWithItsReason) {
  ControlPlane& plane = *ports().control;
  const Rank rank = plane.topology().rank;
  const Rank last = plane.topology().size - 1;
  if (rank == last) {
    plane.abort({StatusCode::kInternal, "out of cheese"});
    return;
  }
  try {
    next_message(plane);
    FAIL() << "a message instead of an error";
  } catch (const LostRankError& error) {  // thrown by code with its own copy of the class
    EXPECT_EQ(error.rank(), last);
    EXPECT_THAT(error.what(), HasSubstr("out of cheese"));
    meet(rank, last);  // the others have heard of it from the last rank, and not of this abort()
    plane.abort(error.status());
  }
}

}  // namespace
}  // namespace hvd::engine::test
