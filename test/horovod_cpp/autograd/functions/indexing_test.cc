
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/creation.h"
#include "test/horovod_cpp/autograd/values.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Indexing, RefusesPositionsOutsideBeforeWriting) {
  const Tensor a = Tensor::zeros({2, 3});
  const Tensor bad = integers({0, 3}, {1, 2});
  EXPECT_THAT(error_of([&] { gather(a, 1, bad); }),
              AllOf(HasSubstr("gather"), HasSubstr("3"), HasSubstr("extent 3")));
  EXPECT_THAT(error_of([&] { gather(a, 1, integers({-1}, {1, 1})); }), HasSubstr("-1"));
  EXPECT_THAT(error_of([&] { scatter(a, 1, bad, Tensor::ones({1, 2})); }), HasSubstr("scatter"));
  EXPECT_THAT(error_of([&] { index_select(a, 0, integers({2}, {1})); }), HasSubstr("index_select"));
  EXPECT_THAT(error_of([&] {
                index(a, {integers({0, -3}, {2})});
              }),
              AllOf(HasSubstr("index"), HasSubstr("-3")));
  EXPECT_THAT(error_of([&] {
                index_put_(a, {integers({0, 2}, {2})}, Tensor::ones({}));
              }),
              HasSubstr("extent 2"));
  EXPECT_EQ(sum(a).item(), 0);
}

TEST(Indexing, RefusesShapesAndDtypesThatDoNotFit) {
  const Tensor a = Tensor::zeros({2, 3});
  EXPECT_THAT(error_of([&] { gather(a, 1, integers({0}, {1})); }),
              AllOf(HasSubstr("[1]"), HasSubstr("[2, 3]")));
  EXPECT_THAT(error_of([&] { gather(a, 0, Tensor::zeros({1, 1})); }), HasSubstr("float32"));
  EXPECT_THAT(error_of([&] {
                scatter_add(a, 0, integers({0, 1}, {2, 1}), Tensor::ones({1, 1}));
              }),
              HasSubstr("[1, 1]"));
  EXPECT_THAT(error_of([&] { index(a, {bools({1, 0, 1}, {3})}); }), HasSubstr("mask [3]"));
  EXPECT_THAT(error_of([&] { masked_select(a, a); }), HasSubstr("bool"));
  EXPECT_THAT(error_of([&] {
                index_add(a, 0, integers({0}, {1}), Tensor::ones({2, 3}));
              }),
              HasSubstr("[1, 3]"));
}

TEST(Indexing, AddsUpWhatMeetsInOnePlace) {
  const Tensor twice = integers({1, 1}, {2});
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kU8}) {
    EXPECT_EQ(index_add(Tensor::zeros({3}, dtype), 0, twice, Tensor::ones({2}, dtype)).to_vector(),
              (V{0, 2, 0}));
    EXPECT_EQ(
        scatter_add(Tensor::zeros({3}, dtype), 0, twice, Tensor::ones({2}, dtype)).to_vector(),
        (V{0, 2, 0}));
  }
}

TEST(Indexing, ReadsAndMovesAnyDtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor a = bools({1, 0, 0, 1}, {2, 2}).to(dtype);
    const Tensor last = integers({1}, {1});
    EXPECT_TRUE(bitwise_equal(index(a, {last}), a.slice(0, 1, 2))) << name_of(dtype);
    EXPECT_TRUE(bitwise_equal(gather(a.t(), 0, integers({1, 1}, {1, 2})), a.slice(1, 1, 2).t()))
        << name_of(dtype);
  }
}

TEST(Index, PlacesTheNewAxesAsNumPyDoes) {
  const Tensor a = Tensor::arange(24).reshape({2, 3, 4});
  const Tensor i = integers({0, 1, 1}, {3});
  EXPECT_EQ(index(a, {i}).shape(), (Shape{3, 3, 4}));
  EXPECT_EQ(index(a, {Tensor(), i}).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(index(a, {i, Tensor(), i}).shape(), (Shape{3, 3}));
  EXPECT_EQ(index(a, {Tensor(), i, i.reshape({3, 1})}).shape(), (Shape{2, 3, 3}));
  EXPECT_EQ(index(a, {i, i, integers({-1}, {1})}).to_vector(), (V{3, 19, 19}));
  EXPECT_EQ(index(a, {bools({1, 0, 0, 0, 0, 1}, {2, 3})}).to_vector(),
            (V{0, 1, 2, 3, 20, 21, 22, 23}));
  EXPECT_TRUE(bitwise_equal(index(a, {}), a));
}

TEST(IndexPut, WritesAndAccumulates) {
  Tensor a = Tensor::zeros({2, 3});
  index_put_(a, {integers({1, 0}, {2}), integers({2, 0}, {2})},
             Tensor::from(std::vector<float>{5, 6}, {2}));
  EXPECT_EQ(a.to_vector(), (V{6, 0, 0, 0, 0, 5}));
  index_put_(a.t(), {bools({1, 0, 1}, {3})}, Tensor::ones({}));  // strided
  EXPECT_EQ(a.to_vector(), (V{1, 0, 1, 1, 0, 1}));
  index_put_(a, {integers({0, 0}, {2})}, Tensor::ones({}), true);
  EXPECT_EQ(a.to_vector(), (V{3, 2, 3, 1, 0, 1}));
  Tensor leaf_like = Tensor::zeros({2}).requires_grad_();
  EXPECT_THAT(error_of([&] { index_put_(leaf_like, {integers({0}, {1})}, Tensor::ones({})); }),
              AllOf(HasSubstr("index_put_"), HasSubstr("requires grad")));
}

TEST(Scatter, LetsTheLastWriteStay) {
  const Tensor result = scatter(Tensor::zeros({2}), 0, integers({1, 1}, {2}),
                                Tensor::from(std::vector<float>{3, 4}, {2}));
  EXPECT_EQ(result.to_vector(), (V{0, 4}));
  const Tensor target = Tensor::ones({2});
  scatter_add_(target, 0, integers({1, 1}, {2}), Tensor::ones({2}));
  EXPECT_EQ(target.to_vector(), (V{1, 3}));
  scatter_(target, 0, integers({0}, {1}), Tensor::zeros({1}));
  EXPECT_EQ(target.to_vector(), (V{0, 3}));
  const Tensor recorded = leaf({2});
  EXPECT_THAT(error_of([&] { scatter_(recorded, 0, integers({0}, {1}), recorded.detach()); }),
              HasSubstr("scatter_"));
}

TEST(Scatter, ReadsWhatTheTargetWasBefore) {
  Tensor a = Tensor::arange(4);
  index_put_(a, {integers({1, 2, 3}, {3})}, a.slice(0, 0, 3));
  EXPECT_EQ(a.to_vector(), (V{0, 0, 1, 2}));
  a = Tensor::arange(4);
  index_put_(a, {bools({0, 1, 1, 1}, {4})}, a.slice(0, 0, 3));
  EXPECT_EQ(a.to_vector(), (V{0, 0, 1, 2}));
  a = Tensor::arange(4).reshape({2, 2}).t();  // strided
  index_put_(a, {integers({1, 0}, {2})}, a);
  EXPECT_EQ(a.to_vector(), (V{1, 3, 0, 2}));
  a = Tensor::arange(3);
  scatter_add_(a, 0, integers({2, 1, 0}, {3}), a);
  EXPECT_EQ(a.to_vector(), (V{2, 2, 2}));
  a = integers({2, 0, 3, 1}, {4});
  scatter_(a, 0, a, Tensor::arange(4));
  EXPECT_EQ(a.to_vector(), (V{1, 3, 0, 2}));
  a = integers({1, 0, 2, 3}, {4});
  scatter_(a, 0, a, Tensor::full({4}, 1e9, DType::kI64));  // indices that would be out of range
  EXPECT_EQ(a.to_vector(), V(4, 1e9));
}

TEST(Nonzero, ListsPositionsInRowMajorOrder) {
  const Tensor a = values({0, 2, 3, 0}, {2, 2});
  EXPECT_EQ(nonzero(a).to_vector(), (V{0, 1, 1, 0}));
  EXPECT_EQ(nonzero(a.t()).to_vector(), (V{0, 1, 1, 0}));
  EXPECT_EQ(nonzero(Tensor::zeros({3})).shape(), (Shape{0, 1}));
  EXPECT_EQ(masked_select(a, a > 2.0).to_vector(), V{3});
}

TEST(OneHot, MarksTheClass) {
  EXPECT_EQ(one_hot(integers({1, 0}, {2})).to_vector(), (V{0, 1, 1, 0}));
  EXPECT_EQ(one_hot(integers({1}, {1}), 3).shape(), (Shape{1, 3}));
  EXPECT_THAT(error_of([] { one_hot(integers({3}, {1}), 3); }), HasSubstr("one_hot"));
}

TEST(Statistics, FindsPositionsAndOrders) {
  const double nan = std::nan("");
  const Tensor a = values({3, 1, 2, 0, 5, 5}, {2, 3});
  EXPECT_EQ(max(a, 1).indices.to_vector(), (V{0, 1}));
  EXPECT_EQ(min(a, 0).values.to_vector(), (V{0, 1, 2}));
  EXPECT_EQ(min(a, 0).indices.to_vector(), (V{1, 0, 0}));
  EXPECT_EQ(argmin(a).item(), 3);
  EXPECT_EQ(argmax(a).item(), 4);
  EXPECT_EQ(argmax(a, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(sort(a).values.to_vector(), (V{1, 2, 3, 0, 5, 5}));
  EXPECT_EQ(sort(a, 1, true).indices.to_vector(), (V{0, 2, 1, 1, 2, 0}));  // stable
  EXPECT_EQ(argsort(values({nan, 1, 0}, {3})).to_vector(), (V{2, 1, 0}));
  EXPECT_EQ(argsort(values({1, nan, 2}, {3}), 0, true).to_vector(), (V{1, 2, 0}));
  EXPECT_EQ(topk(a, 1, 0, false).values.to_vector(), (V{0, 1, 2}));
  EXPECT_EQ(bincount(integers({1, 3, 1}, {3})).to_vector(), (V{0, 2, 0, 1}));
  EXPECT_EQ(bincount(integers({0}, {1}), 2).to_vector(), (V{1, 0}));
  EXPECT_TRUE(std::isnan(var(values({1}, {1})).item()));
  EXPECT_EQ(prod(integers({2, 3, 7}, {3})).item(), 42);
  EXPECT_THAT(error_of([&] { topk(a, 4, 1); }), AllOf(HasSubstr("4"), HasSubstr("[2, 3]")));
  EXPECT_THAT(error_of([&] { min(Tensor::zeros({2, 0}), 1); }), HasSubstr("[2, 0]"));
  EXPECT_THAT(error_of([&] { bincount(integers({-1}, {1})); }), HasSubstr("-1"));
  EXPECT_THAT(error_of([&] { var(Tensor::arange(3)); }), HasSubstr("int64"));
  EXPECT_THAT(error_of([&] { norm(a, 0.0); }), HasSubstr("p = 0"));
}

TEST(Arrangement, CutsIntoViews) {
  const Tensor a = Tensor::arange(5);
  const auto parts = split(a, 2);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].to_vector(), V{4});
  EXPECT_EQ(parts[1].data(), static_cast<std::int64_t*>(a.data()) + 2);
  EXPECT_EQ(split(a, {1, 0, 4})[2].to_vector(), (V{1, 2, 3, 4}));
  EXPECT_EQ(chunk(a, 4).size(), 3u);  // 2, 2, 1
  EXPECT_THAT(error_of([&] { split(a, {1, 2}); }), HasSubstr("[1, 2]"));
  EXPECT_EQ(a.slice(0, 0, 5, 2).to_vector(), (V{0, 2, 4}));
  EXPECT_EQ(a.slice(0, 1, 5, 3).to_vector(), (V{1, 4}));
  EXPECT_THAT(error_of([&] { a.slice(0, 0, 5, 0); }), HasSubstr("step 0"));
}

TEST(Creation, CountsAndSpaces) {
  EXPECT_EQ(arange(1, 6, 2).to_vector(), (V{1, 3, 5}));
  EXPECT_EQ(arange(1, 0, -0.5, DType::kF32).to_vector(), (V{1, 0.5}));
  EXPECT_EQ(arange(2, 2).shape(), Shape{0});
  EXPECT_EQ(linspace(0, 1, 5).to_vector(), (V{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(linspace(3, 9, 1).to_vector(), V{3});
  EXPECT_EQ(eye(2, 3).to_vector(), (V{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(full_like(Tensor::arange(2), 7).dtype(), DType::kI64);
  EXPECT_THAT(error_of([] { arange(0, 1, 0); }), HasSubstr("arange"));
  EXPECT_THAT(error_of([] { arange(0, 1, -1); }), HasSubstr("arange"));
  EXPECT_THAT(error_of([] { arange(0, 300, 1, DType::kU8); }), HasSubstr("uint8"));
}

}  // namespace
}  // namespace hvd
