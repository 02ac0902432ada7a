#include "horovod_cpp/tensor/kernels/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/half.h"
#include "core/base/isa.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/kernels/convolution/convolution.h"
#include "horovod_cpp/tensor/kernels/images/images.h"
#include "horovod_cpp/tensor/kernels/matmul/matmul.h"
#include "horovod_cpp/tensor/layout.h"
#include "horovod_cpp/tensor/random.h"
#ifdef HVD_ONEDNN
#include "horovod_cpp/tensor/onednn/gemm.h"
#endif

namespace hvd {
namespace kernels {
namespace {

// Values that bfloat16 holds exactly.
Tensor halves(Shape shape, std::uint64_t seed, DType dtype = DType::kBF16) {
  Generator generator(seed);
  return to(randn(std::move(shape), DType::kF32, generator), dtype);
}

Tensor wide(const Tensor& a) {
  return cast(a, DType::kF32);
}

// Of the largest; a result that was rounded once is within 1/256 of its own size.
void expect_close(const Tensor& given, const Tensor& expected, double tolerance) {
  ASSERT_EQ(given.shape(), expected.shape());
  const std::vector<double> a = given.to_vector();
  const std::vector<double> b = expected.to_vector();
  double largest = 0.0;
  for (const double value : b) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * largest) << "element " << i;
  }
}

TEST(Bf16, EveryTableConvertsAsCoreDoes) {
  Generator generator(1);
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.00390625f,  // half way between two, to even
                               1.01171875f,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               -std::numeric_limits<float>::max(),
                               1e-40f};
  for (int i = 0; i < 1000; ++i) values.push_back(static_cast<float>(generator.uniform()) - 0.5f);
  std::vector<BFloat16> narrowed(values.size());
  std::vector<float> widened(values.size());
  for (const isa::Table* table : isa::available()) {
    table->bf16.narrow(values.data(), narrowed.data(), std::ssize(values));
    table->bf16.widen(narrowed.data(), widened.data(), std::ssize(values));
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(narrowed[i].bits, to_bfloat16(values[i]).bits) << table->name << " " << values[i];
      if (std::isnan(values[i])) continue;
      EXPECT_EQ(widened[i], to_float(narrowed[i])) << table->name << " " << values[i];
    }
  }
}

TEST(Cast, KeepsTheOrderOfAxesInMemory) {
  const Tensor images = channels_last(halves({2, 3, 4, 5}, 1));
  EXPECT_TRUE(is_channels_last(wide(images)));
  EXPECT_TRUE(bitwise_equal(contiguous(wide(images)), wide(contiguous(images))));
  const Tensor matrix = halves({3, 4}, 2).t();
  EXPECT_EQ(wide(matrix).strides(), matrix.strides());
  EXPECT_TRUE(bitwise_equal(contiguous(wide(matrix)), wide(contiguous(matrix))));
  const Tensor part = halves({3, 4}, 2).slice(1, 0, 4, 2);
  EXPECT_TRUE(bitwise_equal(wide(part), wide(contiguous(part))));
}

TEST(HalfElementwise, IsFloat32RoundedWhateverTheLayout) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor a = halves({2, 3, 40, 41}, 3, dtype);
    const Tensor b = halves({2, 3, 40, 41}, 4, dtype);
    const Tensor last = channels_last(a);
    const Tensor expected = to(unary(Unary::kRelu, wide(a), "relu"), dtype);
    EXPECT_TRUE(bitwise_equal(unary(Unary::kRelu, a, "relu"), expected));
    EXPECT_TRUE(is_channels_last(unary(Unary::kRelu, last, "relu")));
    EXPECT_TRUE(bitwise_equal(contiguous(unary(Unary::kRelu, last, "relu")), expected));
    const Tensor product = to(binary(Binary::kMul, wide(a), wide(b), "mul"), dtype);
    EXPECT_TRUE(bitwise_equal(binary(Binary::kMul, a, b, "mul"), product));
    EXPECT_TRUE(bitwise_equal(contiguous(binary(Binary::kMul, last, b, "mul")), product));
    EXPECT_TRUE(
        bitwise_equal(contiguous(binary(Binary::kMul, last, channels_last(b), "mul")), product));
  }
}

TEST(HalfImages, BatchNormKeepsStatisticsAndParametersInFloat32) {
  const Tensor x = channels_last(halves({5, 4, 130, 130}, 5));  // several parts
  const Tensor g = channels_last(halves({5, 4, 130, 130}, 6));
  Generator generator(7);
  const Tensor weight = randn({4}, DType::kF32, generator);
  const Tensor bias = randn({4}, DType::kF32, generator);
  const Moments expected = channel_moments(wide(x));
  const Moments given = channel_moments(x);
  expect_close(given.mean, expected.mean, 1e-6);
  expect_close(given.variance, expected.variance, 1e-6);
  const Tensor y = batch_norm(x, given, weight, bias, 1e-5);
  EXPECT_EQ(y.dtype(), DType::kBF16);
  EXPECT_TRUE(is_channels_last(y));
  expect_close(y, batch_norm(wide(x), expected, weight, bias, 1e-5), 1.0 / 256);
  for (const bool training : {true, false}) {
    const auto exact = batch_norm_grad(wide(g), wide(x), expected, weight, 1e-5, training);
    const auto half = batch_norm_grad(g, x, given, weight, 1e-5, training);
    EXPECT_EQ(half.weight.dtype(), DType::kF32);
    expect_close(half.input, exact.input, 1.0 / 256);
    expect_close(half.weight, exact.weight, 1e-5);
    expect_close(half.bias, exact.bias, 1e-5);
  }
}

TEST(HalfImages, MaxPoolPicksTheSameElements) {
  const Tensor x = channels_last(halves({3, 4, 130, 131}, 8));
  const auto threes = [](std::int64_t extent) {  // in steps of 2
    Spans spans;
    for (std::int64_t begin = 0; begin + 3 <= extent; begin += 2) {
      spans.push_back({begin, begin + 3, 3});
    }
    return spans;
  };
  const Spans rows = threes(x.size(2));
  const Spans columns = threes(x.size(3));
  const Pooled expected = max_pool2d(wide(x), rows, columns);
  const Pooled given = max_pool2d(x, rows, columns);
  EXPECT_TRUE(bitwise_equal(contiguous(wide(given.values)), contiguous(expected.values)));
  EXPECT_TRUE(bitwise_equal(contiguous(given.index), contiguous(expected.index)));
  const Tensor g = channels_last(halves(expected.values.shape(), 9));
  expect_close(max_pool2d_grad(g, given.index, x.shape()),
               max_pool2d_grad(wide(g), expected.index, x.shape()), 1.0 / 256);
}

ConvShape shape_of(std::int64_t groups, std::int64_t stride, std::int64_t dilation) {
  ConvShape shape{};
  shape.images = 3;
  shape.in_channels = 4 * groups;
  shape.out_channels = 6 * groups;
  shape.groups = groups;
  shape.in = {9, 8};
  shape.kernel = {3, 2};
  shape.stride = {stride, 1};
  shape.padding = {1, 2};
  shape.dilation = {dilation, 1};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t reach = shape.dilation[i] * (shape.kernel[i] - 1) + 1;
    shape.out[i] = (shape.in[i] + 2 * shape.padding[i] - reach) / shape.stride[i] + 1;
  }
  shape.spatial = 2;
  return shape;
}

// What any of them may use: widened operands.
void widening_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                   std::int64_t k, const BFloat16* a, std::int64_t lda, const BFloat16* b,
                   std::int64_t ldb, float* c, std::int64_t ldc, bool accumulate) {
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = accumulate ? static_cast<double>(c[i * ldc + j]) : 0.0;
      for (std::int64_t p = 0; p < k; ++p) {
        sum += static_cast<double>(to_float(a[transpose_a ? p * lda + i : i * lda + p])) *
               static_cast<double>(to_float(b[transpose_b ? j * ldb + p : p * ldb + j]));
      }
      c[i * ldc + j] = static_cast<float>(sum);
    }
  }
}

void expect_convolves(Bf16Gemm gemm) {
  for (const std::int64_t groups : {1, 2}) {
    for (const std::int64_t stride : {1, 2}) {
      const ConvShape shape = shape_of(groups, stride, stride == 1 ? 2 : 1);
      const Tensor x = halves({3, shape.in_channels, 9, 8}, 10);
      const Tensor w = halves({shape.out_channels, 4, 3, 2}, 11);
      const Tensor bias = halves({shape.out_channels}, 12);
      const Tensor g = halves({3, shape.out_channels, shape.out[0], shape.out[1]}, 13);
      expect_close(bf16_convolve(shape, true, x, w, bias, gemm),
                   convolve(shape, wide(x), wide(w), wide(bias)), 1.0 / 256);
      expect_close(bf16_convolve(shape, false, g, w, {}, gemm),
                   convolve_transposed(shape, wide(g), wide(w), {}), 1.0 / 256);
      expect_close(bf16_convolve_weight_grad(shape, x, g, gemm),
                   convolve_weight_grad(shape, wide(x), wide(g)), 1.0 / 256);
    }
  }
}

TEST(Bf16Convolution, ByProductsOfPatchesIsTheFloat32OneRounded) {
  expect_convolves(widening_gemm);
}

TEST(HalfConvolution, IsTheFloat32OneRounded) {
  const ConvShape shape = shape_of(2, 2, 1);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor x = halves({3, 8, 9, 8}, 10, dtype);
    const Tensor w = halves({12, 4, 3, 2}, 11, dtype);
    const Tensor result = convolve(shape, x, w, {});
    EXPECT_EQ(result.dtype(), dtype);
    expect_close(result, convolve(shape, wide(x), wide(w), {}), 1.0 / 256);
  }
}

TEST(HalfMatmul, IsTheFloat32OneRounded) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Tensor a = halves(transpose_a ? Shape{33, 17} : Shape{17, 33}, 14);
      const Tensor b = halves(transpose_b ? Shape{9, 33} : Shape{33, 9}, 15);
      expect_close(matmul(a, transpose_a, b, transpose_b, "matmul"),
                   matmul(wide(a), transpose_a, wide(b), transpose_b, "matmul"), 1.0 / 256);
    }
  }
}

#ifdef HVD_ONEDNN
TEST(OneDnnBf16, MultipliesAsFloat32DoesInEveryArrangement) {
  const Bf16Gemm gemm = isa::onednn_gemm_bf16();
  ASSERT_EQ(gemm != nullptr, best_isa() == Isa::kV4) << "needs AVX-512, and oneDNN 2 is installed";
  if (gemm == nullptr) return;
  expect_convolves(gemm);
  const std::int64_t m = 19, n = 23, k = 37, spare = 3;
  for (int arrangement = 0; arrangement < 8; ++arrangement) {
    const bool transpose_a = (arrangement & 1) != 0;
    const bool transpose_b = (arrangement & 2) != 0;
    const bool accumulate = (arrangement & 4) != 0;
    const Tensor a = halves({64, 64}, 16);
    const Tensor b = halves({64, 64}, 17);
    const Tensor given = wide(halves({m, n + spare}, 18));
    const Tensor expected = clone(given);
    gemm(transpose_a, transpose_b, m, n, k, a.data<BFloat16>(), 61, b.data<BFloat16>(), 59,
         given.data<float>(), n + spare, accumulate);
    widening_gemm(transpose_a, transpose_b, m, n, k, a.data<BFloat16>(), 61, b.data<BFloat16>(), 59,
                  expected.data<float>(), n + spare, accumulate);
    expect_close(given, expected, 1e-5);
  }
}
#endif

}  // namespace
}  // namespace kernels
}  // namespace hvd
