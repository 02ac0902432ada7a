#include "core/system/interruptible_waits.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "core/runtime/completion.h"
#include "core/runtime/handle.h"

namespace hvd::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Interrupt : std::runtime_error {
  Interrupt() : std::runtime_error("interrupted") {}
};

int looks = 0;

void look_twice() {
  if (++looks == 2) throw Interrupt();
}
void never() {}
void at_once() {
  throw Interrupt();
}

TEST(InterruptibleWaits, EndAWaitOfWhatGoesOn) {
  const auto completion = std::make_shared<Completion>();
  const Handle handle(completion);
  looks = 0;
  const TimePoint begin = Clock::now();
  {
    const InterruptibleWaits waits(&look_twice);
    EXPECT_THROW(handle.wait(), Interrupt);
  }
  EXPECT_EQ(looks, 2);
  EXPECT_GE(Clock::now() - begin, milliseconds(150));
  EXPECT_LT(Clock::now() - begin, seconds(10));
  EXPECT_FALSE(handle.done());
  completion->finish(Status());
  EXPECT_EQ(handle.wait().number, 0);
}

TEST(InterruptibleWaits, LetNoLaterWaitOfTheScopeBlock) {
  const Handle pending(std::make_shared<Completion>());
  const auto completion = std::make_shared<Completion>();
  completion->finish(Status());
  const InterruptibleWaits waits(&at_once);
  EXPECT_THROW(pending.wait(), Interrupt);
  const TimePoint begin = Clock::now();
  EXPECT_THROW(pending.wait_for(seconds(30)), Interrupt);
  EXPECT_TRUE(InterruptibleWaits::ended());
  EXPECT_LT(Clock::now() - begin, seconds(15));
  EXPECT_FALSE(pending.wait_for(Duration::zero()));  // blocks nobody
  EXPECT_EQ(Handle(completion).wait().number, 0);
}

TEST(InterruptibleWaits, AreThoseOfTheInnermostScope) {
  const Handle pending(std::make_shared<Completion>());
  const InterruptibleWaits outer(&at_once);
  {
    const InterruptibleWaits inner(&never);
    EXPECT_FALSE(pending.wait_for(milliseconds(250)));
  }
  EXPECT_THROW(pending.wait_for(seconds(30)), Interrupt);
}

// Calls that wait a little, again and again, look as often as one that waits long.
TEST(InterruptibleWaits, CountTimeAcrossShortWaits) {
  const Handle pending(std::make_shared<Completion>());
  const InterruptibleWaits waits(&at_once);
  EXPECT_THROW(
      {
        for (int i = 0; i < 10000; ++i) pending.wait_for(milliseconds(1));
      },
      Interrupt);
}

TEST(InterruptibleWaits, AreNoneWithoutAScope) {
  const TimePoint deadline = Clock::now() + seconds(30);
  EXPECT_EQ(InterruptibleWaits::look_before(deadline), deadline);
  EXPECT_FALSE(InterruptibleWaits::ended());
  InterruptibleWaits::look();
}

}  // namespace
}  // namespace hvd::engine
