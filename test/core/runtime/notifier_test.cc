#include "core/runtime/notifier.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>

#include "test/support/threads.h"

namespace hvd::engine {
namespace {

class NotifierTest : public testing::Test {
 protected:
  // The answer, once the bell rang for it.
  std::string answer(Notifier& notifier) {
    for (;;) {
      const auto seen = bell.rings();
      if (const auto text = notifier.take_location()) return *text;
      bell.wait_until(seen, Clock::now() + std::chrono::seconds(10));
    }
  }

  DoorbellState state;
  Doorbell bell{state};
};

TEST_F(NotifierTest, HasNoThreadUntilItIsNeeded) {
  const std::size_t before = test::thread_count();
  Notifier notifier(bell);
  EXPECT_FALSE(notifier.request_location());
  notifier.report("nobody listens");
  EXPECT_TRUE(test::thread_count_falls_to(before));
}

TEST_F(NotifierTest, AnswersFromAnotherThread) {
  Notifier notifier(bell);
  std::thread::id asked;
  notifier.set_location_callback([&] {
    asked = std::this_thread::get_id();
    return "train.py:12";
  });
  EXPECT_TRUE(notifier.request_location());
  EXPECT_EQ(answer(notifier), "train.py:12");
  EXPECT_NE(asked, std::this_thread::get_id());
  EXPECT_EQ(notifier.take_location(), std::nullopt);
}

TEST_F(NotifierTest, AsksOnceUntilTheAnswerIsThere) {
  Notifier notifier(bell);
  std::promise<void> gate;
  std::atomic<int> asked{0};
  notifier.set_location_callback([&, open = gate.get_future().share()] {
    open.wait();
    return std::to_string(++asked);
  });
  EXPECT_TRUE(notifier.request_location());
  EXPECT_FALSE(notifier.request_location());
  gate.set_value();
  EXPECT_EQ(answer(notifier), "1");
  EXPECT_TRUE(notifier.request_location());
  EXPECT_EQ(answer(notifier), "2");
}

TEST_F(NotifierTest, SaysNothingWhenTheFunctionThrows) {
  Notifier notifier(bell);
  notifier.set_location_callback([]() -> std::string { throw std::runtime_error("no frame"); });
  testing::internal::CaptureStderr();
  EXPECT_TRUE(notifier.request_location());
  EXPECT_EQ(answer(notifier), "");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("no frame"), std::string::npos);
}

TEST_F(NotifierTest, ReportsInOrder) {
  std::promise<std::string> told;
  Notifier notifier(bell);
  std::string all;
  notifier.on_stall([&](const std::string& text) {
    all += text;
    if (text == "b") told.set_value(all);
  });
  notifier.report("a");
  notifier.report("b");
  EXPECT_EQ(told.get_future().get(), "ab");
}

// As Python ends threads that take the interpreter's lock while it ends: whoever swallows that is
// aborted.
TEST_F(NotifierTest, LetsUserCodeEndItsThread) {
  const std::size_t before = test::thread_count();
  const TimePoint start = Clock::now();
  for (const bool looks : {true, false}) {
    std::promise<void> entered;
    Notifier notifier(bell);
    const auto end_thread = [&]() -> std::string {
      entered.set_value();
      pthread_exit(nullptr);
    };
    notifier.set_location_callback(end_thread);
    notifier.on_stall([&](const std::string&) { end_thread(); });
    looks ? static_cast<void>(notifier.request_location()) : notifier.report("late");
    entered.get_future().wait();
  }
  EXPECT_TRUE(test::thread_count_falls_to(before));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

// As when the program holds the interpreter's lock and waits for us.
TEST_F(NotifierTest, LeavesAThreadBehindThatIsStuckInUserCode) {
  auto gate = std::make_shared<std::promise<void>>();
  auto came_back = std::make_shared<std::promise<void>>();
  auto entered = std::make_shared<std::promise<void>>();
  const TimePoint start = Clock::now();
  {
    Notifier notifier(bell);
    notifier.set_location_callback([=, open = gate->get_future().share()] {
      entered->set_value();
      open.wait();
      came_back->set_value();
      return "too late";
    });
    EXPECT_TRUE(notifier.request_location());
    entered->get_future().wait();
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
  gate->set_value();
  came_back->get_future().wait();
}

}  // namespace
}  // namespace hvd::engine
