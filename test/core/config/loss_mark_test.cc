#include "core/config/loss_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support/scoped_environment.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace {

TEST(LossMark, IsSetByARankAndTakenBackByANewJob) {
  const LossMark mark;
  ScopedEnvironment environment;
  environment.set(kLossMarkVariable, mark.place().c_str());
  EXPECT_FALSE(mark.is_set());
  const LossReporter first;
  first.report();
  EXPECT_TRUE(mark.is_set());
  const LossReporter second;
  EXPECT_FALSE(mark.is_set());
}

TEST(LossMark, IsSetByAnotherProcessThatInheritedNothingButTheVariable) {
  const LossMark mark;
  const std::string place = mark.place();
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 3; fd < 256; ++fd) close(fd);
    setenv(kLossMarkVariable, place.c_str(), 1);
    LossReporter().report();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(mark.is_set());
}

TEST(LossReporter, DoesNothingWithoutAnAgent) {
  ScopedEnvironment environment;
  environment.unset(kLossMarkVariable);
  LossReporter().report();
  for (const char* place : {"", " ", "/nowhere", "/nowhere 00112233445566778899aabbccddeeff"}) {
    environment.set(kLossMarkVariable, place);
    LossReporter().report();
  }
}

// As where the agent is in another container: what has its number there is somebody else's.
TEST(LossReporter, LeavesFilesAloneThatAreNotTheAgents) {
  const TemporaryFolder folder;
  const std::string content = "This file is none of a rank's business, whatever it is told.";
  const std::string path = folder.write("file", content);
  ScopedEnvironment environment;
  environment.set(kLossMarkVariable, (path + " 00112233445566778899aabbccddeeff").c_str());
  LossReporter().report();
  EXPECT_EQ(folder.read("file"), content);
}

}  // namespace
}  // namespace hvd
