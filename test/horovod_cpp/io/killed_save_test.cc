// Processes that are killed while they save.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>

#include "core/base/clock.h"
#include "horovod_cpp/io/checkpoint.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace io {
namespace {

// Saves one generation after the other until it is killed; every tensor of a generation holds its
// number.
[[noreturn]] void save_for_ever(const std::string& path, double first) {
  for (double generation = first;; ++generation) {
    NamedTensors tensors;
    for (int i = 0; i < 8; ++i) {
      tensors.emplace_back("t" + std::to_string(i), Tensor::full({20000}, generation));
    }
    save_checkpoint(path, {.parts = {{"model", tensors}}});
  }
}

double generation_of(const std::string& path) {
  const Checkpoint checkpoint = load_checkpoint(path);  // throws on a file that is not whole
  const double generation = checkpoint.tensor("model", "t0").to_vector()[0];
  for (const auto& [name, tensor] : checkpoint.part("model")) {
    EXPECT_THAT(tensor.to_vector(), ::testing::Each(generation)) << name;
  }
  return generation;
}

bool can_write_without_a_name(const TemporaryFolder& folder) {
  const int fd = open(folder.path().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

TEST(KilledSave, LeavesTheOldOrTheNewFileWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  save_checkpoint(path, {.parts = {{"model", {{"t0", Tensor::full({1}, 1)}}}}});
  std::mt19937 random(1);
  double generation = 1;
  int advanced = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_for_ever(path, generation + 1);
    // At least once it is killed after it has saved something.
    const TimePoint limit = Clock::now() + std::chrono::seconds(60);
    while (round == 0 && generation_of(path) == generation && Clock::now() < limit) usleep(1000);
    usleep(static_cast<useconds_t>(1000 + random() % 20000));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const double now = generation_of(path);
    EXPECT_GE(now, generation);
    advanced += now > generation ? 1 : 0;
    generation = now;
  }
  EXPECT_GT(advanced, 0);                         // or nothing was ever saved
  if (!can_write_without_a_name(folder)) return;  // killed writers leave their temporary files
  // Between linking and renaming a whole file may keep its temporary name; nothing else stays.
  for (const std::string& name : folder.names()) EXPECT_GE(generation_of(folder.file(name)), 1);
}

}  // namespace
}  // namespace io
}  // namespace hvd
