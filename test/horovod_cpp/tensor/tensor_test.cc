#include "horovod_cpp/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/half.h"
#include "core/base/status.h"

namespace hvd {
namespace {

using V = std::vector<double>;

Tensor count_to(std::int64_t count, Shape shape, DType dtype = DType::kF32) {
  return Tensor::arange(count, dtype).reshape(std::move(shape));
}

TEST(Tensor, UndefinedOneSaysSo) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_THROW(none.shape(), InvalidArgumentError);
  EXPECT_EQ(to_string(none), "Tensor(undefined)");
}

TEST(Tensor, FactoriesFillEveryDtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::kBool || is_complex(dtype)) continue;  // dtypes_test.cc
    EXPECT_EQ(Tensor::zeros({3}, dtype).to_vector(), V(3, 0.0));
    EXPECT_EQ(Tensor::ones({3}, dtype).to_vector(), V(3, 1.0));
    EXPECT_EQ(Tensor::full({2}, 7, dtype).to_vector(), V(2, 7.0));
    EXPECT_EQ(Tensor::arange(4, dtype).to_vector(), (V{0, 1, 2, 3}));
    EXPECT_EQ(Tensor::scalar(5, dtype).item(), 5);
    EXPECT_EQ(Tensor::scalar(5, dtype).dim(), 0);
  }
}

TEST(Tensor, MemoryIsAlignedToACacheLine) {
  for (std::int64_t n : {0, 1, 3, 1000}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Tensor::empty({n}).data()) % 64, 0u);
  }
}

TEST(Tensor, RefusesImpossibleShapes) {
  EXPECT_THROW(Tensor::empty({2, -1}), InvalidArgumentError);
  EXPECT_THROW(Tensor::empty({std::int64_t{1} << 62, 4}), InvalidArgumentError);
  EXPECT_THROW(Tensor::empty({std::int64_t{1} << 61}), InvalidArgumentError);  // bytes overflow
  EXPECT_THROW(Tensor::empty({0, std::int64_t{1} << 62, 4}), InvalidArgumentError);  // strides do
}

TEST(Tensor, FromCopiesItsValues) {
  std::vector<float> values = {1, 2};
  const Tensor a = Tensor::from(std::span<const float>(values), {2});
  values[0] = 9;
  EXPECT_EQ(a.to_vector(), (V{1, 2}));
  EXPECT_THROW(Tensor::from(std::span<const float>(values), {3}), InvalidArgumentError);
}

TEST(Tensor, WrapKeepsTheOwnerAliveAndSharesItsMemory) {
  auto owner = std::make_shared<std::vector<double>>(V{1, 2, 3, 4, 5, 6});
  std::weak_ptr<const void> watch = owner;
  double* memory = owner->data();
  Tensor view;
  {
    Tensor wrapped = Tensor::wrap(memory, {2, 3}, DType::kF64, owner);
    view = wrapped.select(0, 1);
    owner.reset();
  }
  EXPECT_FALSE(watch.expired());
  memory[3] = 40;
  EXPECT_EQ(view.to_vector(), (V{40, 5, 6}));
  view = {};
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, WrapTakesStrides) {
  auto owner = std::make_shared<std::vector<double>>(V{1, 2, 3, 4, 5, 6});
  const Tensor a = Tensor::wrap(owner->data(), {3, 2}, DType::kF64, owner, {1, 3});
  EXPECT_EQ(a.to_vector(), (V{1, 4, 2, 5, 3, 6}));
  EXPECT_FALSE(a.is_contiguous());
  EXPECT_THROW(Tensor::wrap(owner->data(), {3, 2}, DType::kF64, owner, {1}), InvalidArgumentError);
  EXPECT_THROW(Tensor::wrap(nullptr, {3}, DType::kF64, owner), InvalidArgumentError);
  EXPECT_THROW(Tensor::wrap(owner->data(), {3}, DType::kF64, nullptr), InvalidArgumentError);
}

TEST(Tensor, LeaseOutlivesTheTensor) {
  Lease lease;
  {
    const Tensor a = Tensor::full({3}, 2.0);
    lease = a.select(0, 2).lease();
    EXPECT_EQ(lease.view.data, a.data<float>() + 2);
  }
  EXPECT_EQ(lease.view.numel, 1);
  EXPECT_EQ(*static_cast<float*>(lease.view.data), 2.0f);
  EXPECT_THROW(count_to(4, {2, 2}).t().lease(), InvalidArgumentError);
}

TEST(Tensor, DataChecksTheType) {
  const Tensor a = Tensor::ones({1});
  EXPECT_EQ(*a.data<float>(), 1.0f);
  EXPECT_THROW(a.data<double>(), InvalidArgumentError);
  EXPECT_EQ(Tensor::ones({1}, DType::kBF16).data<BFloat16>()->bits, 0x3f80);
}

TEST(Tensor, ItemNeedsOneElement) {
  EXPECT_EQ(Tensor::full({1, 1}, 3).item(), 3);
  EXPECT_THROW(Tensor::ones({2}).item(), InvalidArgumentError);
}

TEST(Tensor, SizeCountsFromTheEndToo) {
  const Tensor a = Tensor::empty({2, 3});
  EXPECT_EQ(a.size(-1), 3);
  EXPECT_EQ(a.size(0), 2);
  EXPECT_THROW(a.size(2), InvalidArgumentError);
  EXPECT_THROW(a.size(-3), InvalidArgumentError);
}

TEST(Tensor, CopiesOfAHandleAreOneTensor) {
  Tensor a = Tensor::zeros({2});
  Tensor b = a;
  b.fill_(1);
  EXPECT_EQ(a.to_vector(), V(2, 1.0));
  EXPECT_TRUE(a.is(b));
  EXPECT_EQ(a.id(), b.id());
  EXPECT_FALSE(a.is(a.clone()));
}

TEST(Reshape, SharesMemoryAndInfersOneExtent) {
  Tensor a = count_to(6, {2, 3});
  Tensor b = a.reshape({-1, 2});
  EXPECT_EQ(b.shape(), (Shape{3, 2}));
  b.fill_(1);
  EXPECT_EQ(a.to_vector(), V(6, 1.0));
  EXPECT_THROW(a.reshape({4}), InvalidArgumentError);
  EXPECT_THROW(a.reshape({-1, -1}), InvalidArgumentError);
  EXPECT_THROW(a.reshape({-1, 4}), InvalidArgumentError);
  EXPECT_THROW(a.reshape({-1, 0}), InvalidArgumentError);
}

TEST(Reshape, OfAStridedTensorIsAViewWhereThatIsPossible) {
  const Tensor a = count_to(24, {2, 3, 4});
  const Tensor part = a.slice(2, 1, 3);  // [2, 3, 2], strides 12 4 1
  EXPECT_EQ(part.reshape({6, 2}).data(), part.data());
  EXPECT_EQ(part.reshape({6, 2}).to_vector(), part.to_vector());
  EXPECT_EQ(part.reshape({2, 1, 3, 2, 1}).data(), part.data());
  EXPECT_NE(part.reshape({12}).data(), part.data());
  EXPECT_EQ(part.reshape({12}).to_vector(), part.to_vector());
  const Tensor turned = a.permute({2, 0, 1});  // [4, 2, 3], strides 1 12 4
  EXPECT_EQ(turned.reshape({4, 6}).data(), turned.data());
  EXPECT_EQ(turned.reshape({4, 6}).to_vector(), turned.to_vector());
  EXPECT_EQ(turned.reshape({2, 2, 6}).data(), turned.data());
  EXPECT_EQ(turned.reshape({2, 2, 6}).to_vector(), turned.to_vector());
  EXPECT_EQ(turned.reshape({8, 3}).to_vector(), turned.to_vector());
  EXPECT_EQ(a.select(0, 0).unsqueeze(1).t().reshape({12}).to_vector(), a.select(0, 0).to_vector());
}

TEST(Flatten, KeepsTheAxesBeforeTheFirst) {
  EXPECT_EQ(Tensor::ones({2, 3, 4}).flatten(1).shape(), (Shape{2, 12}));
  EXPECT_EQ(Tensor::ones({2, 3, 4}).flatten().shape(), (Shape{24}));
  EXPECT_EQ(Tensor::ones({}).flatten().shape(), (Shape{1}));
  EXPECT_EQ(Tensor::ones({0, 3}).flatten(1).shape(), (Shape{0, 3}));
}

TEST(Permute, ReordersAxesOverTheSameMemory) {
  const Tensor a = count_to(6, {1, 2, 3});
  EXPECT_EQ(a.permute({2, 0, 1}).shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(a.permute({2, 0, -2}).to_vector(), (V{0, 3, 1, 4, 2, 5}));
  EXPECT_THROW(a.permute({0, 1}), InvalidArgumentError);
  EXPECT_THROW(a.permute({0, 1, 1}), InvalidArgumentError);
  EXPECT_EQ(a.transpose(0, -1).shape(), (Shape{3, 2, 1}));
}

TEST(Slice, IsAViewWithCheckedBounds) {
  Tensor a = count_to(6, {2, 3});
  a.slice(1, 1, 2).fill_(9);
  EXPECT_EQ(a.to_vector(), (V{0, 9, 2, 3, 9, 5}));
  EXPECT_EQ(a.slice(1, -2, 3).to_vector(), (V{9, 2, 9, 5}));
  EXPECT_EQ(a.slice(0, 2, 2).shape(), (Shape{0, 3}));
  EXPECT_THROW(a.slice(1, 0, 4), InvalidArgumentError);
  EXPECT_THROW(a.slice(1, 2, 1), InvalidArgumentError);
  EXPECT_THROW(a.slice(2, 0, 1), InvalidArgumentError);
}

TEST(Select, DropsTheAxisAndChecksTheIndex) {
  const Tensor a = count_to(6, {2, 3});
  EXPECT_EQ(a.select(1, -1).to_vector(), (V{2, 5}));
  EXPECT_THROW(a.select(0, 2), InvalidArgumentError);
  EXPECT_THROW(a.select(0, -3), InvalidArgumentError);
}

TEST(Expand, RepeatsWithoutCopying) {
  const Tensor a = count_to(2, {2, 1});
  EXPECT_EQ(a.expand({3, 2, 2}).to_vector(), (V{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(a.expand({3, 2, 2}).data(), a.data());
  EXPECT_THROW(a.expand({3, 2}), InvalidArgumentError);
  EXPECT_THROW(a.expand({2}), InvalidArgumentError);
}

TEST(Squeeze, NeedsAnExtentOfOne) {
  EXPECT_EQ(Tensor::ones({2, 1, 3}).squeeze(1).shape(), (Shape{2, 3}));
  EXPECT_EQ(Tensor::ones({2}).unsqueeze(-1).shape(), (Shape{2, 1}));
  EXPECT_THROW(Tensor::ones({2}).squeeze(0), InvalidArgumentError);
}

TEST(Copy, BroadcastsAndConverts) {
  Tensor a = Tensor::zeros({2, 3});
  a.copy_(Tensor::arange(3));
  EXPECT_EQ(a.to_vector(), (V{0, 1, 2, 0, 1, 2}));
  a.t().copy_(Tensor::arange(2, DType::kU8));
  EXPECT_EQ(a.to_vector(), (V{0, 0, 0, 1, 1, 1}));
  EXPECT_THROW(a.copy_(Tensor::ones({2})), InvalidArgumentError);
}

TEST(To, ConvertsBetweenAllDtypes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    for (int j = 0; j < kDTypeCount; ++j) {
      const auto from = static_cast<DType>(i);
      const auto to = static_cast<DType>(j);
      if (is_complex(from) || is_complex(to)) continue;  // dtypes_test.cc
      const bool has_bool = from == DType::kBool || to == DType::kBool;
      const Tensor a = Tensor::arange(5).to(from);
      EXPECT_EQ(a.to(to).to_vector(), has_bool ? (V{0, 1, 1, 1, 1}) : (V{0, 1, 2, 3, 4}));
    }
  }
  const Tensor a = Tensor::ones({1});
  EXPECT_TRUE(a.to(DType::kF32).is(a));
  EXPECT_EQ(Tensor::full({1}, 0.1).to(DType::kBF16).to(DType::kF32).item(), 0.10009765625);
}

TEST(Contiguous, IsTheTensorItselfWhenItIs) {
  const Tensor a = count_to(6, {2, 3});
  EXPECT_TRUE(a.contiguous().is(a));
  const Tensor b = a.t().contiguous();
  EXPECT_TRUE(b.is_contiguous());
  EXPECT_EQ(b.to_vector(), (V{0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(a.slice(0, 1, 2).is_contiguous());
  EXPECT_FALSE(a.slice(1, 1, 3).is_contiguous());
}

TEST(InPlace, AddScaleAndZero) {
  Tensor a = count_to(3, {3});
  a.add_(Tensor::ones({1}), 2.0).mul_(0.5);
  EXPECT_EQ(a.to_vector(), (V{1, 1.5, 2}));
  EXPECT_THROW(a.add_(Tensor::ones({3}, DType::kF64)), InvalidArgumentError);
  EXPECT_THROW(a.add_(Tensor::ones({2, 3})), InvalidArgumentError);
  a.zero_();
  EXPECT_EQ(a.to_vector(), V(3, 0.0));
  Tensor half = Tensor::ones({2}, DType::kF16);
  half.add_(half.clone(), 0.5);
  EXPECT_EQ(half.to_vector(), V(2, 1.5));
}

TEST(ToString, ShowsFactsAndTheElementsOfSmallOnes) {
  EXPECT_EQ(to_string(count_to(3, {3})), "Tensor([3], float32) {0, 1, 2}");
  EXPECT_EQ(to_string(Tensor::ones({5, 5}, DType::kI64)), "Tensor([5, 5], int64)");
}

TEST(BitwiseEqual, TellsSignsOfZeroAndDtypesApart) {
  const Tensor zero = Tensor::zeros({1});
  EXPECT_TRUE(bitwise_equal(zero, Tensor::zeros({1})));
  EXPECT_FALSE(bitwise_equal(zero, Tensor::full({1}, -0.0)));
  EXPECT_FALSE(bitwise_equal(zero, Tensor::zeros({1}, DType::kI32)));
  EXPECT_FALSE(bitwise_equal(zero, Tensor::zeros({1, 1})));
  const Tensor nan = Tensor::full({1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(bitwise_equal(nan, nan.clone()));
  EXPECT_TRUE(bitwise_equal(Tensor::ones({0}), Tensor::ones({0})));
}

}  // namespace
}  // namespace hvd
