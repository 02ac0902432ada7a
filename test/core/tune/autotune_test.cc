#include "core/tune/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/status.h"
#include "test/core/runtime/sim_ranks.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd::engine::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Tells an Autotune of batches that end at times of the test's choosing.
class Steps {
 public:
  explicit Steps(const Config& config) : autotune(config) {}

  void batch(std::vector<std::string> names, std::size_t bytes, bool automatic = false) {
    now_ += milliseconds(1);
    BatchInfo info;
    info.bytes = bytes;
    info.finished = now_;
    for (const std::string& name : names) {
      BatchMemberInfo member;
      member.name = name;
      member.automatic_name = automatic;
      info.members.push_back(member);
    }
    autotune.finished(info);
  }

  Autotune autotune;

 private:
  TimePoint now_ = Clock::now();
};

class AutotuneTest : public testing::Test {
 protected:
  AutotuneTest() {
    config_.autotune = true;
    config_.autotune_log = log_;
    config_.autotune_warmup_samples = 0;
    config_.autotune_steps_per_sample = 2;
    config_.autotune_max_samples = 2;
  }

  const TemporaryFolder folder_;
  const std::string log_ = folder_.file("autotune.csv");
  Config config_;
};

TEST_F(AutotuneTest, ASampleEndsWhenATensorCameOftenEnough) {
  Steps steps(config_);
  steps.batch({"unknown before"}, 999);  // when it began is not known
  for (int sample = 0; sample < 5; ++sample) {
    EXPECT_EQ(steps.autotune.take_change(), std::nullopt);
    EXPECT_THAT(read(log_), testing::Not(HasSubstr("default")));
    steps.batch({"a", "b"}, 2000);
    steps.batch({"c"}, 1000);
    steps.batch({"b"}, 3000);  // for the second time: 6000 bytes in 3 ms
  }
  EXPECT_THAT(read(log_), HasSubstr("default,0,1048576,2\n"));
  EXPECT_TRUE(steps.autotune.take_change().has_value());
  EXPECT_EQ(steps.autotune.take_change(), std::nullopt) << "told once";
}

TEST_F(AutotuneTest, NamesThatNeverComeAgainEndNoSample) {
  Steps steps(config_);
  for (int i = 0; i < 100; ++i) steps.batch({"same"}, 1, true);
  EXPECT_THAT(read(log_), testing::Not(HasSubstr("default")));
}

TEST_F(AutotuneTest, WhatTheUserChoseStays) {
  config_.sources = {{"HOROVOD_FUSION_THRESHOLD", "environment"},
                     {"HOROVOD_CYCLE_TIME", "environment"}};
  Steps steps(config_);
  EXPECT_THAT(read(log_), HasSubstr("chosen,0,1048576"));
  for (int i = 0; i < 100; ++i) steps.batch({"a"}, 1000);
  EXPECT_EQ(steps.autotune.take_change(), std::nullopt);
}

TEST_F(AutotuneTest, ALogThatCannotBeWrittenIsAnError) {
  config_.autotune_log = "/no/such/folder/log.csv";
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { Autotune autotune(config_); }),
              HasSubstr("HOROVOD_AUTOTUNE_LOG='/no/such/folder/log.csv'"));
}

TEST_F(AutotuneTest, ALogThatIsALinkOfAnotherUserIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make a link of another user";
  const TemporaryFolder folder;
  const std::string precious = folder.write("precious", "precious");
  config_.autotune_log = folder.file("log.csv");
  std::filesystem::create_symlink(precious, config_.autotune_log);
  ASSERT_EQ(lchown(config_.autotune_log.c_str(), 1, 1), 0);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { const Autotune autotune(config_); }),
              HasSubstr("log.csv': its symbolic link is not followed"));
  EXPECT_EQ(folder.read("precious"), "precious");
}

TEST_F(AutotuneTest, ALogThatEndsEarlySaysSo) {
  config_.autotune_log = "/dev/full";
  testing::internal::CaptureStderr();
  const Autotune autotune(config_);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("the log of HOROVOD_AUTOTUNE_LOG ends here: No space left"));
}

// Settings change while tensors are reduced, and every sum is right.
TEST_F(AutotuneTest, TunesARunningJobAndEndsWithAChoice) {
  config_.autotune_steps_per_sample = 1;
  config_.autotune_max_samples = 4;
  SimRanks ranks(3, {}, config_);
  for (int step = 0; step < 200; ++step) {
    if (read(log_).find("chosen") != std::string::npos) break;
    std::vector<Handle> handles;
    std::vector<std::shared_ptr<std::vector<float>>> values;
    for (Rank rank = 0; rank < 3; ++rank) {
      for (const char* name : {"a", "b"}) {
        values.push_back(shared<float>({static_cast<float>(rank + step)}));
        handles.push_back(ranks[rank].submit(allreduce(name, values.back())));
      }
    }
    for (const Handle& handle : handles) handle.wait();
    for (const auto& value : values) ASSERT_EQ(value->front(), static_cast<float>(3 * step + 3));
  }
  EXPECT_THAT(read(log_),
              StartsWith("phase,cycle_time_ms,tensor_fusion_threshold,score\ndefault,"));
  EXPECT_THAT(read(log_), HasSubstr("search,"));
  EXPECT_THAT(read(log_), HasSubstr("chosen,"));
}

}  // namespace
}  // namespace hvd::engine::test
