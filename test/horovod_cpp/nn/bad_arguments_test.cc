// Arguments so far out that arithmetic with them would overflow, wrap around or never end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/io/safetensors.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/lr_scheduler.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/creation.h"
#include "horovod_cpp/tensor/memory.h"
#include "test/support/message_of.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

template <typename Action>
std::string error_of(Action action) {
  return message_of<InvalidArgumentError>(action);
}

Tensor images() {
  return Tensor::ones({1, 1, 4, 4});
}

TEST(BadArguments, ConvolutionsRefuseWhatWouldWrapAround) {
  const Tensor w = Tensor::ones({1, 1, 3, 3});
  for (const std::int64_t huge : {kHuge, kHuge / 2, std::int64_t{1} << 32}) {
    const std::string number = std::to_string(huge);
    EXPECT_THAT(error_of([&] { conv2d(images(), w, {}, huge); }), HasSubstr("stride " + number));
    EXPECT_THAT(error_of([&] { conv2d(images(), w, {}, 1, huge); }),
                HasSubstr("padding " + number));
    EXPECT_THAT(error_of([&] { conv2d(images(), w, {}, 1, 0, huge); }),
                HasSubstr("dilation " + number));
    EXPECT_THAT(error_of([&] { conv2d(images(), w, {}, 1, 0, 1, huge); }),
                HasSubstr("groups " + number));
    EXPECT_THAT(error_of([&] { conv_transpose2d(images(), w, {}, huge); }),
                HasSubstr("stride " + number));
    EXPECT_THAT(error_of([&] { conv_transpose2d(images(), w, {}, 1, huge); }),
                HasSubstr("padding " + number));
  }
}

TEST(BadArguments, PoolingRefusesWhatWouldWrapAroundOrNeverEnd) {
  const std::int64_t wraps = (std::int64_t{1} << 32) + 2;  // as a 32-bit number: 2
  EXPECT_THAT(error_of([&] { nn::MaxPool2d(Pool2dOptions{wraps})(images()); }),
              HasSubstr("kernel_size [4294967298, 4294967298]"));
  EXPECT_THAT(error_of([&] {
                nn::MaxPool2d(Pool2dOptions{2, wraps})(images());
              }),
              HasSubstr("stride [4294967298, 4294967298]"));
  EXPECT_THAT(error_of([&] {
                nn::MaxPool2d(Pool2dOptions{kHuge / 2, 1, kHuge / 4})(images());
              }),
              HasSubstr("max_pool2d: input [1, 1, 4, 4]"));
  EXPECT_THAT(error_of([&] {
                avg_pool2d(images(), {2, 1, kHuge});
              }),
              HasSubstr("padding [9223372036854775807"));
  EXPECT_THAT(error_of([&] { adaptive_avg_pool2d(images(), kHuge); }),
              HasSubstr("output_size [9223372036854775807"));
}

TEST(BadArguments, AKernelTooLargeToListItsWindowsPoolsAsWell) {
  const Tensor large = Tensor::zeros({1, 1, 600, 600});
  large.select(2, 300).select(2, 300).fill_(1);
  EXPECT_EQ(nn::MaxPool2d(Pool2dOptions{500, 100})(large).to_vector(),
            (std::vector<double>{1, 1, 1, 1}));
}

TEST(BadArguments, NormalisationRefusesWhatMakesNaNs) {
  EXPECT_THAT(error_of([] { nn::BatchNorm2d(3, -1.0); }), HasSubstr("BatchNorm2d: eps=-1"));
  EXPECT_THAT(error_of([] { nn::BatchNorm2d(3, 1e-5, std::nan("")); }),
              HasSubstr("BatchNorm2d: momentum=nan"));
  EXPECT_THAT(error_of([] { nn::LayerNorm(3, std::nan("")); }), HasSubstr("LayerNorm: eps=nan"));
  EXPECT_THAT(error_of([] { nn::GroupNorm(1, 3, -1.0); }), HasSubstr("GroupNorm: eps=-1"));
  EXPECT_THAT(error_of([] { nn::MultiheadAttention(4, 2, {.dropout = 3}); }),
              HasSubstr("MultiheadAttention: dropout=3"));
}

TEST(BadArguments, AnExpandedTensorIsNotWrittenInPlace) {
  const Tensor base = Tensor::zeros({1, 3});
  Tensor expanded = base.expand({2, 3});
  EXPECT_THAT(
      error_of([&] {
        expanded.add_(Tensor::ones({2, 3}));
      }),
      AllOf(HasSubstr("add_: the tensor (shape [2, 3]) is expanded"), HasSubstr("clone()")));
  EXPECT_THAT(error_of([&] { expanded.fill_(1); }), HasSubstr("fill_: "));
  EXPECT_THAT(error_of([&] { expanded.copy_(Tensor::ones({2, 3})); }), HasSubstr("copy_: "));
  EXPECT_EQ(base.to_vector(), (std::vector<double>{0, 0, 0}));
  base.expand({1, 3}).fill_(2);  // nothing is repeated
  EXPECT_EQ(base.to_vector(), (std::vector<double>{2, 2, 2}));
}

TEST(BadArguments, ASchedulerNamesAGroupThatIsNotThere) {
  optim::SGD optimizer({Tensor::zeros({1}).requires_grad_()});
  const optim::lr_scheduler::StepLR scheduler(optimizer, 1);
  EXPECT_THAT(error_of([&] { scheduler.lr_at(0, 7); }), HasSubstr("lr_at: group 7 of 1"));
}

TEST(OutOfMemory, NamesTheTensorThatIsTooLarge) {
  EXPECT_THAT(message_of<OutOfMemoryError>([] {
                Tensor::zeros({1 << 20, 1 << 21});
              }),
              HasSubstr("8796093022208 bytes of a float32 tensor [1048576, 2097152]"));
  EXPECT_THAT(message_of<OutOfMemoryError>([] { arange(0, 1e15, 1); }),
              HasSubstr("float64 tensor [1000000000000000]"));
  EXPECT_THROW(Tensor::zeros({1 << 20, 1 << 21}), std::bad_alloc);
}

TEST(OutOfMemory, NamesTheCheckpointThatIsTooLarge) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"w":{"dtype":"U8","shape":[8796093022208],"data_offsets":[0,8796093022208]}})";
  std::string start(8, '\0');
  start[0] = static_cast<char>(header.size());
  const std::string path = folder.write("huge.safetensors", start + header);
  std::error_code error;  // some file systems have no sparse files of this size
  std::filesystem::resize_file(path, start.size() + header.size() + 8796093022208, error);
  if (error) GTEST_SKIP() << error.message();
  EXPECT_THAT(message_of<OutOfMemoryError>([&] { io::load(path); }),
              HasSubstr("huge.safetensors: Tensor::empty: no memory"));
}

}  // namespace
}  // namespace hvd
