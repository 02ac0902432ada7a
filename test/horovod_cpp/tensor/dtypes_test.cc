#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <functional>
#include <limits>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/tensor.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using V = std::vector<double>;
using Complex = std::complex<float>;

constexpr DType kStoredOnly[] = {DType::kI8, DType::kU16, DType::kI16, DType::kC64, DType::kC128};

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

Tensor complex_pair() {
  const Tensor tensor = Tensor::empty({2}, DType::kC64);
  tensor.data<Complex>()[0] = {1.5f, -2};
  tensor.data<Complex>()[1] = {0, 3};
  return tensor;
}

TEST(DTypes, EveryOneIsFilledCopiedViewedAndCompared) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor zeros = Tensor::zeros({2, 3}, dtype);
    const Tensor ones = Tensor::ones({2, 3}, dtype);
    EXPECT_FALSE(bitwise_equal(zeros, ones)) << name_of(dtype);
    EXPECT_TRUE(bitwise_equal(ones.clone(), ones)) << name_of(dtype);
    Tensor copy = zeros.clone();
    copy.select(0, 1).copy_(ones.select(0, 0));
    const Tensor transposed = copy.t().contiguous();
    EXPECT_TRUE(bitwise_equal(transposed.t().select(0, 1), ones.select(0, 0))) << name_of(dtype);
    EXPECT_TRUE(bitwise_equal(transposed.t().select(0, 0), zeros.select(0, 0))) << name_of(dtype);
    EXPECT_TRUE(bitwise_equal(concat({zeros, ones}, 0).slice(0, 2, 4), ones)) << name_of(dtype);
    EXPECT_TRUE(bitwise_equal(copy.fill_(1), ones)) << name_of(dtype);
  }
}

TEST(DTypes, SmallIntegersKeepTheirValues) {
  const Tensor signs = Tensor::from(std::vector<double>{-128, -1, 127}, {3});
  EXPECT_EQ(signs.to(DType::kI8).to_vector(), (V{-128, -1, 127}));
  EXPECT_EQ(signs.to(DType::kI16).data<std::int16_t>()[0], -128);
  EXPECT_EQ(Tensor::full({1}, 65535, DType::kU16).data<std::uint16_t>()[0], 65535);
  EXPECT_EQ(Tensor::arange(128, DType::kI8).to_vector().back(), 127);
  EXPECT_EQ(signs.to(DType::kI8).to(DType::kBF16).to_vector(), (V{-128, -1, 127}));
}

TEST(DTypes, WhatIsNotZeroIsTrue) {
  const Tensor numbers = Tensor::from(std::vector<double>{0, 0.5, -3}, {3});
  for (const DType dtype : {DType::kF64, DType::kBF16}) {
    EXPECT_EQ(numbers.to(dtype).to(DType::kBool).to_vector(), (V{0, 1, 1}));
  }
  EXPECT_EQ(Tensor::ones({2}, DType::kBool).data<bool>()[1], true);
}

TEST(DTypes, ComplexNumbersConvertToComplexOnly) {
  const Tensor pair = complex_pair();
  const Tensor wide = pair.to(DType::kC128);
  EXPECT_EQ(wide.data<std::complex<double>>()[0], std::complex<double>(1.5, -2));
  EXPECT_TRUE(bitwise_equal(wide.to(DType::kC64), pair));
  const Tensor real = Tensor::full({2}, 4, DType::kF16).to(DType::kC64);
  EXPECT_EQ(real.data<Complex>()[1], Complex(4, 0));
  EXPECT_THAT(refusal([&] { pair.to(DType::kF32); }),
              AllOf(HasSubstr("complex64"), HasSubstr("float32"), HasSubstr("imaginary")));
  EXPECT_NE(refusal([&] { Tensor::zeros({2}).copy_(pair); }), "");
  EXPECT_NE(refusal([&] { pair.to_vector(); }), "");
}

TEST(DTypes, AreRefusedAsAnothersCppType) {
  EXPECT_THROW(Tensor::zeros({1}, DType::kBool).data<std::uint8_t>(), InvalidArgumentError);
  EXPECT_THROW(Tensor::zeros({1}, DType::kI16).data<std::uint16_t>(), InvalidArgumentError);
}

TEST(DTypes, ValuesThatDoNotFitAreRefused) {
  EXPECT_THAT(refusal([] { Tensor::full({1}, 300, DType::kI8); }),
              AllOf(HasSubstr("300"), HasSubstr("int8")));
  EXPECT_NE(refusal([] { Tensor::full({1}, -1, DType::kU8); }), "");
  EXPECT_NE(refusal([] { Tensor::full({1}, 0x1p63, DType::kI64); }), "");
  EXPECT_NE(
      refusal([] { Tensor::full({1}, std::numeric_limits<double>::quiet_NaN(), DType::kI32); }),
      "");
  EXPECT_NE(refusal([] { Tensor::full({1}, 2, DType::kBool); }), "");
  EXPECT_NE(refusal([] { Tensor::arange(129, DType::kI8); }), "");
  EXPECT_EQ(refusal([] { Tensor::full({1}, -0x1p63, DType::kI64); }), "");
  EXPECT_EQ(refusal([] { Tensor::full({1}, 255.9, DType::kU8); }), "");  // 255, as before
}

TEST(DTypes, PrintTheirElements) {
  EXPECT_EQ(to_string(complex_pair()), "Tensor([2], complex64) {1.5-2j, 0+3j}");
  EXPECT_EQ(to_string(Tensor::full({2}, -5, DType::kI8)), "Tensor([2], int8) {-5, -5}");
  EXPECT_EQ(to_string(Tensor::ones({1}, DType::kBool)), "Tensor([1], bool) {1}");
}

struct Operation {
  const char* name;
  std::function<void(const Tensor&)> run;
};

TEST(DTypes, ArithmeticOnStoredOnlyOnesNamesTheFunctionAndTheDtype) {
  const Operation operations[] = {
      {"add", [](const Tensor& t) { add(t, t); }},
      {"sub", [](const Tensor& t) { sub(t, t); }},
      {"mul", [](const Tensor& t) { mul(t, t); }},
      {"div", [](const Tensor& t) { div(t, t); }},
      {"neg", [](const Tensor& t) { neg(t); }},
      {"number", [](const Tensor& t) { t + 0.5; }},
      {"number", [](const Tensor& t) { 2.0 * t; }},
      {"pow", [](const Tensor& t) { pow(t, 2); }},
      {"exp", [](const Tensor& t) { exp(t); }},
      {"relu", [](const Tensor& t) { relu(t); }},
      {"matmul", [](const Tensor& t) { matmul(t, t); }},
      {"sum", [](const Tensor& t) { sum(t); }},
      {"mean", [](const Tensor& t) { mean(t); }},
      {"max", [](const Tensor& t) { max(t); }},
      {"argmax", [](const Tensor& t) { argmax(t, 0); }},
      {"softmax", [](const Tensor& t) { softmax(t, 0); }},
      {"add_", [](const Tensor& t) { t.clone().add_(t); }},
      {"mul_", [](const Tensor& t) { t.clone().mul_(2); }},
      {"random", [](const Tensor& t) { bernoulli(t.shape(), 0.5, t.dtype()); }},
      {"uniform_", [](const Tensor& t) { rand(t.shape(), t.dtype()); }},
      {"requires_grad", [](const Tensor& t) { t.clone().requires_grad_(); }},
  };
  for (const DType dtype : kStoredOnly) {
    const Tensor tensor = Tensor::ones({2, 2}, dtype);
    for (const Operation& operation : operations) {
      const std::string text = refusal([&] { operation.run(tensor); });
      EXPECT_THAT(text, HasSubstr(name_of(dtype))) << operation.name;
      EXPECT_THAT(text, HasSubstr(operation.name)) << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace hvd
