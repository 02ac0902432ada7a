#include <gtest/gtest.h>

#include <vector>

#include "horovod_cpp/autograd/functions/functions.h"

namespace hvd {
namespace {

std::vector<float> values(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const auto* first = dense.data<float>();
  return {first, first + dense.numel()};
}

Tensor square() {
  return Tensor::from(std::vector<float>{0, 1, 2, 3}, {2, 2});
}

TEST(InPlace, ReadsWhatAnOverlappingSourceWasBefore) {
  Tensor rows = square();
  rows.add_(rows.select(0, 0), -1.0);
  EXPECT_EQ(values(rows), (std::vector<float>{0, 0, 2, 2}));
  Tensor sum = square();
  sum.add_(sum.t());
  EXPECT_EQ(values(sum), (std::vector<float>{0, 3, 3, 6}));
  Tensor turned = square();
  turned.copy_(turned.t());
  EXPECT_EQ(values(turned), (std::vector<float>{0, 2, 1, 3}));
}

TEST(InPlace, ShiftsEitherWay) {
  for (const std::int64_t numel : {4, 1000}) {
    const Tensor before = Tensor::arange(numel, DType::kF32);
    Tensor up = before.clone();
    up.slice(0, 1, numel).copy_(up.slice(0, 0, numel - 1));
    EXPECT_EQ(values(up.slice(0, 1, numel)), values(before.slice(0, 0, numel - 1))) << numel;
    Tensor down = before.clone();
    down.slice(0, 0, numel - 1).add_(down.slice(0, 1, numel));
    EXPECT_EQ(values(down.slice(0, 0, numel - 1)),
              values(before.slice(0, 0, numel - 1) + before.slice(0, 1, numel)))
        << numel;
  }
}

TEST(InPlace, TheSameElementsNeedNoCopy) {
  Tensor x = square();
  x.add_(x);
  EXPECT_EQ(values(x), (std::vector<float>{0, 2, 4, 6}));
}

}  // namespace
}  // namespace hvd
