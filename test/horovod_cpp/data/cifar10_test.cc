#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/data/datasets.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace data {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// A record whose red, green and blue planes hold `red`, `red` + 1 and `red` + 2.
std::string record(char label, char red) {
  std::string bytes(1, label);
  for (char channel = 0; channel < 3; ++channel) {
    bytes += std::string(1024, static_cast<char>(red + channel));
  }
  return bytes;
}

std::string error_of(const std::string& folder, bool train = true) {
  return message_of<InvalidArgumentError>([&] { CIFAR10 cifar(folder, train); });
}

TEST(CIFAR10, TakesTheBatchFilesThatExistInOrder) {
  const TemporaryFolder folder;
  folder.write("data_batch_4.bin", record(7, 40));
  folder.write("data_batch_2.bin", record(1, 10) + record(9, 20));
  folder.write("test_batch.bin", record(5, 60));
  const CIFAR10 train(folder.path(), true, PixelFormat::kU8);
  ASSERT_EQ(train.size(), 3);
  EXPECT_EQ(train.get(0)[1].item(), 1);
  EXPECT_EQ(train.get(1)[1].item(), 9);
  EXPECT_EQ(train.get(2)[1].item(), 7);
  const CIFAR10 test(folder.path(), /*train=*/false);
  ASSERT_EQ(test.size(), 1);
  EXPECT_EQ(test.get(0)[1].item(), 5);
}

TEST(CIFAR10, GivesThePlanesAsChannels) {
  const TemporaryFolder folder;
  folder.write("data_batch_1.bin", record(0, 10) + record(0, 20));
  const CIFAR10 raw(folder.path(), true, PixelFormat::kU8);
  const Tensor image = raw.get(1)[0];
  EXPECT_EQ(image.shape(), (Shape{3, 32, 32}));
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    EXPECT_THAT(image.select(0, channel).to_vector(), Each(20 + static_cast<double>(channel)));
  }
  const Tensor scaled = CIFAR10(folder.path()).get(0)[0];
  EXPECT_THAT(scaled.select(0, 2).to_vector(), Each(static_cast<double>(12.0f / 255.0f)));
}

TEST(CIFAR10, NamesTheFileAndWhatIsWrongWithIt) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(folder.path()), HasSubstr("none of data_batch_1.bin"));
  EXPECT_THAT(error_of(folder.path(), false), HasSubstr("test_batch.bin: cannot be opened"));
  folder.write("data_batch_1.bin", record(1, 10));
  folder.write("data_batch_3.bin", "");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("data_batch_3.bin: is empty"));
  folder.write("data_batch_3.bin", record(1, 10) + record(2, 20).substr(0, 3072));
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("data_batch_3.bin: has 6145 bytes, which is not a multiple of the 3073"));
  folder.write("data_batch_3.bin", record(1, 10) + record(10, 20));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("data_batch_3.bin: record 1 has label 10"));
}

TEST(CIFAR100, GivesTheFineLabels) {
  const TemporaryFolder folder;
  folder.write("train.bin", std::string(1, 19) + record(99, 10) + std::string(1, 3) + record(0, 5));
  folder.write("test.bin", std::string(1, 1) + record(42, 60));
  const CIFAR100 train(folder.path(), true, PixelFormat::kU8);
  ASSERT_EQ(train.size(), 2);
  EXPECT_EQ(train.get(0)[1].item(), 99);
  EXPECT_THAT(train.get(0)[0].select(0, 1).to_vector(), Each(11));
  EXPECT_EQ(train.get(1)[1].item(), 0);
  EXPECT_EQ(CIFAR100(folder.path(), false).get(0)[1].item(), 42);
  folder.write("test.bin", std::string(1, 1) + record(100, 60));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { CIFAR100(folder.path(), false); }),
              HasSubstr("test.bin: record 0 has label 100: expected 0 to 99"));
  folder.write("test.bin", record(1, 60));
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { CIFAR100(folder.path(), false); }),
              HasSubstr("not a multiple of the 3074 bytes of a CIFAR-100 record"));
}

}  // namespace
}  // namespace data
}  // namespace hvd
