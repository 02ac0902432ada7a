#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/random.h"
#include "test/support/message_of.h"

namespace hvd {
namespace isa {
namespace {

constexpr std::int64_t kLength = 1037;  // no multiple of any register

template <typename T>
std::vector<T> numbers(std::int64_t count, std::uint64_t seed, double low = -2, double high = 2) {
  Generator generator(seed);
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(static_cast<T>(low + (high - low) * generator.uniform()));
  }
  return result;
}

template <typename T>
void expect_near(const std::vector<T>& given, const std::vector<T>& expected, double ulps) {
  ASSERT_EQ(given.size(), expected.size());
  const double eps = std::numeric_limits<T>::epsilon();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double want = static_cast<double>(expected[i]);
    EXPECT_NEAR(static_cast<double>(given[i]), want, ulps * eps * std::max(1.0, std::abs(want)))
        << "element " << i;
  }
}

template <typename T>
class Levels : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Levels, FloatTypes);

TEST(Choose, TakesTheWidestUnlessTold) {
  const auto& tables = available();
  EXPECT_EQ(&choose(tables, std::nullopt), tables.back());
  for (const Table* each : tables) EXPECT_EQ(&choose(tables, std::string(each->name)), each);
}

TEST(Choose, NamesWhatTheProcessorCanRun) {
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { choose({available().front()}, "v9"); }),
            "HVD_ISA='v9': this processor can run " + std::string(available().front()->name));
}

TYPED_TEST(Levels, AgreeOnElementwiseFunctions) {
  const auto a = numbers<TypeParam>(kLength, 1);
  const auto b = numbers<TypeParam>(kLength, 2, 0.5, 2);
  for (const Table* each : available()) {
    const Kernels<TypeParam>& kernels = each->of<TypeParam>();
    const Kernels<TypeParam>& base = available().front()->of<TypeParam>();
    std::vector<TypeParam> given(kLength);
    std::vector<TypeParam> expected(kLength);
    for (const Unary op :
         {Unary::kNeg, Unary::kExp, Unary::kLog, Unary::kSqrt, Unary::kTanh, Unary::kSigmoid,
          Unary::kRelu, Unary::kAbs, Unary::kSign, Unary::kSquare, Unary::kReciprocal,
          Unary::kRsqrt, Unary::kSin, Unary::kCos, Unary::kErf, Unary::kLog1p}) {
      const bool positive = op == Unary::kLog || op == Unary::kSqrt || op == Unary::kReciprocal ||
                            op == Unary::kRsqrt || op == Unary::kLog1p;
      const auto& in = positive ? b : a;
      kernels.unary(op, in.data(), given.data(), kLength);
      base.unary(op, in.data(), expected.data(), kLength);
      expect_near(given, expected, 8);
    }
    for (const Binary op : {Binary::kAdd, Binary::kSub, Binary::kMul, Binary::kDiv,
                            Binary::kMaximum, Binary::kMinimum, Binary::kReluGrad,
                            Binary::kTanhGrad, Binary::kSigmoidGrad, Binary::kSqrtGrad}) {
      for (const auto& [sa, sb] : {std::pair{1, 1}, {1, 0}, {0, 1}}) {
        kernels.binary(op, a.data(), sa, b.data(), sb, given.data(), kLength);
        base.binary(op, a.data(), sa, b.data(), sb, expected.data(), kLength);
        expect_near(given, expected, 4);
      }
    }
  }
}

TYPED_TEST(Levels, GiveSpecialValuesTheirMeaning) {
  constexpr TypeParam kInf = std::numeric_limits<TypeParam>::infinity();
  constexpr TypeParam kNaN = std::numeric_limits<TypeParam>::quiet_NaN();
  for (const Table* each : available()) {
    const auto at = [&](Unary op, TypeParam x) {
      TypeParam y = 7;
      each->of<TypeParam>().unary(op, &x, &y, 1);
      return y;
    };
    EXPECT_EQ(at(Unary::kExp, -kInf), 0) << each->name;
    EXPECT_EQ(at(Unary::kExp, -1000), 0) << each->name;
    EXPECT_EQ(at(Unary::kExp, kInf), kInf) << each->name;
    EXPECT_EQ(at(Unary::kExp, 0), 1) << each->name;
    EXPECT_EQ(at(Unary::kLog, 0), -kInf) << each->name;
    EXPECT_EQ(at(Unary::kLog, kInf), kInf) << each->name;
    EXPECT_TRUE(std::isnan(at(Unary::kLog, -1))) << each->name;
    for (TypeParam x = std::numeric_limits<TypeParam>::min(); x > 0; x /= 2) {  // subnormal
      const TypeParam expected = std::log(x);
      EXPECT_NEAR(at(Unary::kLog, x), expected,
                  -expected * std::numeric_limits<TypeParam>::epsilon())
          << each->name << " " << x;
    }
    EXPECT_EQ(at(Unary::kSqrt, kInf), kInf) << each->name;
    EXPECT_EQ(at(Unary::kTanh, -kInf), -1) << each->name;
    EXPECT_EQ(at(Unary::kSigmoid, -1000), 0) << each->name;
    EXPECT_EQ(at(Unary::kSigmoid, kInf), 1) << each->name;
    EXPECT_TRUE(std::signbit(at(Unary::kTanh, TypeParam(-0.0)))) << each->name;
    for (const Unary op : {Unary::kNeg, Unary::kExp, Unary::kLog, Unary::kSqrt, Unary::kTanh,
                           Unary::kSigmoid, Unary::kRelu}) {
      EXPECT_TRUE(std::isnan(at(op, kNaN))) << each->name << " " << static_cast<int>(op);
    }
  }
}

TYPED_TEST(Levels, DoNotCareWhereInMemoryAnOperandLies) {
  const auto in = numbers<TypeParam>(kLength, 1, 0.1, 2);
  for (const Table* each : available()) {
    const Kernels<TypeParam>& kernels = each->of<TypeParam>();
    std::vector<TypeParam> reference(kLength);
    for (std::size_t shift = 0; shift < 17; ++shift) {
      std::vector<TypeParam> moved(shift, TypeParam(0));
      moved.insert(moved.end(), in.begin(), in.end());
      std::vector<TypeParam> out(moved.size());
      for (const Unary op : {Unary::kExp, Unary::kLog, Unary::kTanh, Unary::kSigmoid}) {
        kernels.unary(op, in.data(), reference.data(), kLength);
        kernels.unary(op, moved.data() + shift, out.data() + shift, kLength);
        EXPECT_TRUE(std::equal(reference.begin(), reference.end(),
                               out.begin() + static_cast<std::ptrdiff_t>(shift)));
      }
      EXPECT_EQ(kernels.sum(moved.data() + shift, kLength), kernels.sum(in.data(), kLength));
      for (const Binary op : {Binary::kMul, Binary::kSigmoidGrad}) {
        kernels.binary(op, in.data(), 1, in.data(), 1, reference.data(), kLength);
        kernels.binary(op, moved.data() + shift, 1, in.data(), 1, out.data() + shift, kLength);
        EXPECT_TRUE(std::equal(reference.begin(), reference.end(),
                               out.begin() + static_cast<std::ptrdiff_t>(shift)));
      }
      kernels.gemm(false, true, 17, 17, 61, in.data(), 61, in.data(), 61, reference.data(), 17,
                   false);
      kernels.gemm(false, true, 17, 17, 61, moved.data() + shift, 61, in.data(), 61,
                   out.data() + shift, 17, false);
      EXPECT_TRUE(std::equal(reference.begin(), reference.begin() + 17 * 17,
                             out.begin() + static_cast<std::ptrdiff_t>(shift)));
      kernels.log_softmax(in.data(), reference.data(), 17, 61);
      kernels.log_softmax(moved.data() + shift, out.data() + shift, 17, 61);
      EXPECT_TRUE(std::equal(reference.begin(), reference.end(),
                             out.begin() + static_cast<std::ptrdiff_t>(shift)));
    }
  }
}

TYPED_TEST(Levels, AgreeOnReductions) {
  const auto a = numbers<TypeParam>(kLength, 1);
  const auto b = numbers<TypeParam>(kLength, 2);
  double total = 0;
  double squares = 0;
  double product = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]);
    total += x;
    squares += (x - 0.5) * (x - 0.5);
    product += x * (static_cast<double>(b[i]) - 0.5);
  }
  const double bound = 300 * static_cast<double>(std::numeric_limits<TypeParam>::epsilon());
  for (const Table* each : available()) {
    const Kernels<TypeParam>& kernels = each->of<TypeParam>();
    const auto half = TypeParam(0.5);
    EXPECT_NEAR(kernels.sum(a.data(), kLength), total, bound * 10);
    EXPECT_NEAR(kernels.sum_squares(a.data(), half, kLength), squares, bound * 100);
    EXPECT_NEAR(kernels.dot(a.data(), b.data(), half, kLength), product, bound * 10);
    EXPECT_EQ(kernels.sum(a.data(), 0), 0.0);
  }
}

TYPED_TEST(Levels, MultiplyMatricesExactlyOnIntegers) {
  Generator generator(1);
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {3, 5, 7},
                                {17, 33, 65},
                                {64, 1, 40},
                                {1, 64, 40},
                                {70, 300, 20}}) {
    std::vector<TypeParam> a(static_cast<std::size_t>(m * k));
    std::vector<TypeParam> b(static_cast<std::size_t>(k * n));
    for (auto& x : a) x = static_cast<TypeParam>(generator.below(9)) - 4;
    for (auto& x : b) x = static_cast<TypeParam>(generator.below(9)) - 4;
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        std::vector<TypeParam> expected;
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            TypeParam total = 1;  // what c holds before
            for (std::int64_t l = 0; l < k; ++l) {
              total += a[static_cast<std::size_t>(ta ? l * m + i : i * k + l)] *
                       b[static_cast<std::size_t>(tb ? j * k + l : l * n + j)];
            }
            expected.push_back(total);
          }
        }
        for (const Table* each : available()) {
          std::vector<TypeParam> c(expected.size(), TypeParam(1));
          const auto& kernels = each->of<TypeParam>();
          kernels.gemm(ta, tb, m, n, k, a.data(), ta ? m : k, b.data(), tb ? k : n, c.data(), n,
                       true);
          EXPECT_EQ(c, expected) << each->name << " " << m << " " << n << " " << k;
          kernels.gemm(ta, tb, m, n, k, a.data(), ta ? m : k, b.data(), tb ? k : n, c.data(), n,
                       false);
          for (auto& x : c) x += 1;
          EXPECT_EQ(c, expected) << each->name << " " << m << " " << n << " " << k;
        }
      }
    }
  }
}

TYPED_TEST(Levels, AgreeOnProductsOfMatrices) {  // oneDNN with Eigen, too
  const auto a = numbers<TypeParam>(64 * 300, 1);
  const auto b = numbers<TypeParam>(300 * 70, 2);
  std::vector<TypeParam> expected(64 * 70);
  available().front()->of<TypeParam>().gemm(false, false, 64, 70, 300, a.data(), 300, b.data(), 70,
                                            expected.data(), 70, false);
  for (const Table* each : available()) {
    std::vector<TypeParam> given(expected.size());
    each->of<TypeParam>().gemm(false, false, 64, 70, 300, a.data(), 300, b.data(), 70, given.data(),
                               70, false);
    expect_near(given, expected, 600);
  }
}

TYPED_TEST(Levels, MultiplyGatheredRowsExactlyOnIntegers) {
  constexpr std::int64_t kCount = 13;
  constexpr std::int64_t kRows = 20;
  Generator generator(1);
  const auto integers = [&](std::int64_t count) {
    std::vector<TypeParam> result(static_cast<std::size_t>(count));
    for (auto& x : result) x = static_cast<TypeParam>(generator.below(9)) - 4;
    return result;
  };
  for (const Table* each : available()) {
    const Kernels<TypeParam>& kernels = each->of<TypeParam>();
    for (const std::int64_t n : {std::int64_t{1}, kernels.lanes + 1, kernels.panel}) {
      for (const std::int64_t k : {3, 131}) {
        const std::int64_t ld = (n + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
        const std::int64_t half = k / 2;  // the second half of a row meets the first rows of b
        const std::array<Segment, 2> halves = {{{half, 0, k - half}, {0, k - half, half}}};
        const auto a = integers(kRows * k);
        const auto b = integers(k * ld);
        const auto bias = integers(n);
        std::vector<std::int64_t> from, to;
        for (std::int64_t i = 0; i < kCount; ++i) {
          from.push_back((i * 7 + 3) % kRows * k);
          to.push_back((i * 3 + 1) % kRows * n);
        }
        const RowPairs rows = {kCount, from.data(), to.data()};
        const Segments segments = {2, halves.data()};
        auto c = integers(kRows * n);
        auto plain = c;
        auto expected = c;
        auto unbiased = c;
        auto w = integers(k * ld);
        auto sums = w;
        for (std::size_t i = 0; i < kCount; ++i) {
          for (std::int64_t j = 0; j < n; ++j) {
            const auto at = static_cast<std::size_t>(to[i] + j);
            unbiased[at] = 0;
            for (std::int64_t p = 0; p < k; ++p) {
              const auto row = static_cast<std::size_t>(((p + k - half) % k) * ld + j);
              const TypeParam x = a[static_cast<std::size_t>(from[i] + p)];
              unbiased[at] += x * b[row];
              sums[row] += x * c[at];
            }
            expected[at] = unbiased[at] + bias[static_cast<std::size_t>(j)];
          }
        }
        kernels.gather_outer(rows, segments, n, a.data(), c.data(), w.data());
        for (std::size_t i = 0; i < w.size(); ++i) {  // what pads the rows is nobody's
          if (static_cast<std::int64_t>(i) % ld >= n) continue;
          EXPECT_EQ(w[i], sums[i]) << each->name << " " << n << " " << k;
        }
        kernels.gather_gemm(rows, segments, n, a.data(), b.data(), nullptr, plain.data());
        EXPECT_EQ(plain, unbiased) << each->name << " " << n << " " << k;
        kernels.gather_gemm(rows, segments, n, a.data(), b.data(), bias.data(), c.data());
        EXPECT_EQ(c, expected) << each->name << " " << n << " " << k;
      }
    }
  }
}

TYPED_TEST(Levels, TransposeAlike) {
  constexpr std::int64_t kHeight = 300;
  const auto in = numbers<TypeParam>(kHeight * 37, 1);
  for (const Table* each : available()) {
    for (const std::int64_t width : {1, 9, 37}) {
      std::vector<std::int64_t> in_rows, out_rows;  // those of `out` last to first
      for (std::int64_t i = 0; i < kHeight; ++i) in_rows.push_back(i * width);
      for (std::int64_t j = 0; j < width; ++j) out_rows.push_back((width - 1 - j) * kHeight);
      std::vector<TypeParam> out(static_cast<std::size_t>(kHeight * width));
      each->of<TypeParam>().transpose(kHeight, width, in.data(), in_rows.data(), out.data(),
                                      out_rows.data());
      for (std::int64_t i = 0; i < kHeight * width; ++i) {
        ASSERT_EQ(out[static_cast<std::size_t>((width - 1 - i % width) * kHeight + i / width)],
                  in[static_cast<std::size_t>(i)])
            << each->name << " " << width;
      }
    }
  }
}

TYPED_TEST(Levels, FindTheLargestOfRowsTheFirstOfSeveralAndNaN) {
  constexpr std::int64_t kColumns = 37;
  auto in = numbers<TypeParam>(9 * kColumns, 1);
  for (std::int64_t j = 0; j < 20; ++j) {  // a tie in all of these, on top of it a NaN in some
    in[static_cast<std::size_t>(2 * kColumns + j)] =
        in[static_cast<std::size_t>(7 * kColumns + j)] = 5;
    if (j % 3 == 0) {
      in[static_cast<std::size_t>(4 * kColumns + j)] = std::numeric_limits<TypeParam>::quiet_NaN();
    }
  }
  const std::array<std::int32_t, 4> rows = {1, 2, 4, 7};
  for (const Table* each : available()) {
    std::vector<TypeParam> out(kColumns);
    std::vector<std::int32_t> index(kColumns);
    each->of<TypeParam>().max_of_rows(in.data(), kColumns, rows.data(), 4, out.data(),
                                      index.data());
    for (std::int64_t j = 0; j < kColumns; ++j) {
      std::int32_t best = rows[0];
      const auto value = [&](std::int32_t row) {
        return in[static_cast<std::size_t>(row * kColumns + j)];
      };
      for (const std::int32_t row : rows) {
        if (value(row) > value(best) || std::isnan(value(row))) best = row;
      }
      const auto at = static_cast<std::size_t>(j);
      EXPECT_EQ(index[at], best) << each->name << " column " << j;
      EXPECT_TRUE(out[at] == value(best) || std::isnan(value(best))) << each->name;
      EXPECT_EQ(std::isnan(out[at]), std::isnan(value(best))) << each->name;
    }
  }
}

TEST(Isa, EveryTableSaysForWhichInstructionsItWasCompiled) {
  for (const isa::Table* table : isa::available()) {
    EXPECT_LE(table->instructions, best_isa()) << table->name;
    if (table->name == "onednn") continue;
    EXPECT_EQ(table->name, name_of(table->instructions));
  }
}

}  // namespace
}  // namespace isa
}  // namespace hvd
