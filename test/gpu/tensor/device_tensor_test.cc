#include "horovod_cpp/tensor/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/creation.h"
#include "horovod_cpp/tensor/memory.h"
#include "horovod_cpp/tensor/random.h"

// Tensors on devices, against the CPU's: by the module over CUDA's functions on host memory that
// lies beside this program, or, where test/gpu/run.sh copied it, on a GPU.
namespace hvd {
namespace {

using ::testing::HasSubstr;

const Device kGpu{DeviceKind::kCuda, 0};
const Device kOther{DeviceKind::kCuda, 1};
constexpr DType kFloating[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
constexpr DType kAll[] = {DType::kU8,   DType::kI32, DType::kI64, DType::kF16,
                          DType::kBF16, DType::kF32, DType::kF64, DType::kI8,
                          DType::kU16,  DType::kI16, DType::kBool};

Tensor random(Shape shape, DType dtype = DType::kF32, std::uint64_t seed = 1) {
  Generator generator(seed);
  return randn(std::move(shape), DType::kF32, generator).to(dtype);
}

// Small whole numbers, of which all dtypes but bool have the same.
Tensor whole(Shape shape, DType dtype) {
  return Tensor::arange(numel_of(shape)).reshape(std::move(shape)).to(dtype);
}

void expect_equal(const Tensor& on_device, const Tensor& expected, const std::string& what) {
  EXPECT_EQ(on_device.device(), kGpu) << what;
  EXPECT_TRUE(bitwise_equal(on_device.cpu(), expected))
      << what << ": " << to_string(on_device) << ", not " << to_string(expected);
}

void expect_near(const Tensor& on_device, const Tensor& expected, double bound,
                 const std::string& what) {
  EXPECT_EQ(on_device.device(), kGpu) << what;
  ASSERT_EQ(on_device.shape(), expected.shape()) << what;
  ASSERT_EQ(on_device.dtype(), expected.dtype()) << what;
  const auto got = on_device.to_vector();
  const auto wanted = expected.to_vector();
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], bound * std::max(1.0, std::abs(wanted[i]))) << what << " " << i;
  }
}

template <typename E>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(DeviceTensor, HasTheValuesThatItWasMadeWith) {
  for (const DType dtype : kAll) {
    const double value = dtype == DType::kBool ? 1 : 5;
    const std::string name(name_of(dtype));
    expect_equal(Tensor::zeros({3, 5}, dtype, kGpu), Tensor::zeros({3, 5}, dtype), name);
    expect_equal(Tensor::ones({3, 5}, dtype, kGpu), Tensor::ones({3, 5}, dtype), name);
    expect_equal(Tensor::full({2000}, value, dtype, kGpu), Tensor::full({2000}, value, dtype),
                 name);
    expect_equal(zeros_like(Tensor::ones({2}, dtype, kGpu)), Tensor::zeros({2}, dtype), name);
  }
  expect_equal(Tensor::full({3}, 2, DType::kC128, kGpu), Tensor::full({3}, 2, DType::kC128), "c");
  EXPECT_EQ(Tensor::empty({0, 3}, DType::kF32, kGpu).device(), kGpu);
  EXPECT_EQ(Tensor::empty({0, 3}, DType::kF32, kGpu).cpu().shape(), (Shape{0, 3}));
}

TEST(DeviceTensor, MovesBetweenDevicesAndBack) {
  const Tensor x = random({7, 11});
  EXPECT_TRUE(x.cpu().is(x));
  const Tensor there = x.cuda();
  EXPECT_TRUE(there.to(kGpu).is(there));
  expect_equal(there, x, "there");
  if (cuda_tensors().memory->devices() > 1) {
    const Tensor moved = x.cuda(1);
    EXPECT_EQ(moved.device(), kOther);
    EXPECT_TRUE(moved.to(kOther).is(moved));
    expect_equal(moved.to(kGpu), x, "from one device to the other");
  }
  expect_equal(x.t().to(kGpu), x.t().contiguous(), "a view");
  expect_equal(x.cuda().t().contiguous(), x.t().contiguous(), "made dense there");
}

TEST(DeviceTensor, IsPrintedAndReadWithItsValues) {
  const Tensor x = Tensor::full({2}, 1.5, DType::kF32, kGpu);
  EXPECT_EQ(to_string(x), "Tensor([2], float32, cuda:0) {1.5, 1.5}");
  EXPECT_EQ(x.select(0, 1).item(), 1.5);
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1.5, 1.5}));
  EXPECT_TRUE(bitwise_equal(x, x.cpu()));
  synchronize(kGpu);
}

TEST(DeviceTensor, ConvertsBetweenAllDtypes) {
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      const Tensor x = whole({2, 3, 5}, from);
      const std::string what = std::string(name_of(from)) + " to " + std::string(name_of(to));
      expect_equal(x.cuda().to(to), x.to(to), what);
      expect_equal(x.cuda().permute({2, 0, 1}).to(to), x.permute({2, 0, 1}).to(to), what);
    }
  }
  for (const DType from : kFloating) {
    const Tensor x = random({1000}, from);
    for (const DType to : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kC64}) {
      expect_equal(x.cuda().to(to), x.to(to), std::string(name_of(from)));
    }
  }
}

TEST(DeviceTensor, CopiesAcrossDevicesWithBroadcasting) {
  const Tensor x = random({5});
  Tensor target = Tensor::zeros({3, 5}, DType::kF64, kGpu);
  target.copy_(x);
  Tensor expected = Tensor::zeros({3, 5}, DType::kF64);
  expected.copy_(x);
  expect_equal(target, expected, "from the CPU");
  Tensor back = Tensor::zeros({3, 5}, DType::kF64);
  back.copy_(target);
  EXPECT_TRUE(bitwise_equal(back, expected));
  target.select(0, 1).fill_(2);
  expected.select(0, 1).fill_(2);
  expect_equal(target, expected, "a row that is filled");
}

TEST(DeviceTensor, IsShiftedInPlace) {
  const Tensor before = whole({1000}, DType::kF32);
  Tensor x = before.to(kGpu);
  x.slice(0, 1, 1000).copy_(x.slice(0, 0, 999));
  expect_equal(x.slice(0, 1, 1000), before.slice(0, 0, 999), "copied up");
  x.copy_(before);
  x.slice(0, 0, 999).add_(x.slice(0, 1, 1000));
  expect_equal(x.slice(0, 0, 999), before.slice(0, 0, 999) + before.slice(0, 1, 1000), "added");
}

TEST(DeviceTensor, ExactFunctionsHaveTheHostsBits) {
  const std::vector<std::pair<std::string, Tensor (*)(const Tensor&)>> functions = {
      {"neg", neg},   {"relu", relu},     {"abs", abs},     {"sign", sign},
      {"sqrt", sqrt}, {"square", square}, {"rsqrt", rsqrt}, {"reciprocal", reciprocal}};
  for (const DType dtype : kFloating) {
    const Tensor x = abs(random({3, 700}, dtype)) + 0.5;
    const Tensor mixed = random({3, 700}, dtype);
    for (const auto& [name, function] : functions) {
      const Tensor& in = name == "sqrt" || name == "rsqrt" ? x : mixed;
      const std::string what = name + " of " + std::string(name_of(dtype));
      expect_equal(function(in.cuda()), function(in), what);
      expect_equal(function(in.cuda().t()), function(in.t()), what + ", strided");
    }
  }
  const Tensor whole_numbers = whole({9}, DType::kI32) - Tensor::full({}, 4, DType::kI32);
  expect_equal(-whole_numbers.cuda(), -whole_numbers, "neg of int32");
}

TEST(DeviceTensor, OtherFunctionsAgreeWithinRounding) {
  const std::vector<std::pair<std::string, Tensor (*)(const Tensor&)>> functions = {
      {"exp", exp}, {"log", log}, {"tanh", tanh}, {"sigmoid", sigmoid},
      {"sin", sin}, {"cos", cos}, {"erf", erf},   {"log1p", log1p}};
  const std::pair<DType, double> bounds[] = {
      {DType::kF16, 1e-3}, {DType::kBF16, 1e-2}, {DType::kF32, 5e-7}, {DType::kF64, 1e-14}};
  for (const auto& [dtype, bound] : bounds) {
    const Tensor x = abs(random({1500}, dtype)) + 0.25;
    for (const auto& [name, function] : functions) {
      expect_near(function(x.cuda()), function(x), bound,
                  name + " of " + std::string(name_of(dtype)));
    }
  }
  EXPECT_EQ(exp(Tensor::full({1}, -100, DType::kF32, kGpu)).item(), 0.0);
}

TEST(DeviceTensor, CombinesWithBroadcastingAsTheHost) {
  using Combine = Tensor (*)(const Tensor&, const Tensor&);
  const std::vector<std::pair<std::string, Combine>> functions = {
      {"add", add}, {"sub", sub},         {"mul", mul},
      {"div", div}, {"maximum", maximum}, {"minimum", minimum}};
  for (const DType dtype : kFloating) {
    const Tensor a = random({4, 1, 300}, dtype, 1);
    const Tensor b = random({5, 1}, dtype, 2);
    const Tensor c = random({4, 5, 300}, dtype, 3);
    for (const auto& [name, function] : functions) {
      const std::string what = name + " of " + std::string(name_of(dtype));
      expect_equal(function(a.cuda(), b.cuda()), function(a, b), what);
      expect_equal(function(c.cuda(), c.cuda()), function(c, c), what);
      expect_equal(function(c.cuda().transpose(0, 2), b.cuda()), function(c.transpose(0, 2), b),
                   what);
    }
    expect_equal(2.0 - c.cuda() * 3.0 / 4.0 + 1.0, 2.0 - c * 3.0 / 4.0 + 1.0, "numbers");
  }
  for (const DType dtype : {DType::kU8, DType::kI32, DType::kI64}) {
    const Tensor a = whole({60, 50}, dtype);
    const Tensor b = whole({50}, dtype);
    expect_equal(a.cuda() * b.cuda() - a.cuda(), a * b - a, std::string(name_of(dtype)));
  }
}

TEST(DeviceTensor, InPlaceFormsChangeTheMemoryThatViewsShare) {
  for (const DType dtype : kFloating) {
    const Tensor by = random({6}, dtype, 4);
    Tensor x = random({5, 6}, dtype);
    Tensor y = x.cuda();
    for (Tensor* each : {&x, &y}) {
      const Tensor other = by.to(each->device());
      each->slice(0, 1, 4).add_(other);
      each->mul_(0.5).mul_(other).sub_(other, 2.0).div_(other + 3.0);
    }
    expect_equal(y, x, std::string(name_of(dtype)));
  }
  Tensor x = whole({100}, DType::kI64);
  Tensor y = x.cuda();
  expect_equal(y.add_(y, 3).mul_(0.5), x.add_(x, 3).mul_(0.5), "int64");
}

TEST(DeviceTensor, SumsOverAnyAxes) {
  for (const DType dtype : kFloating) {
    const Tensor x = whole({3, 4, 5}, dtype) / 4.0;  // exact sums
    for (const std::vector<std::int64_t>& axes :
         {std::vector<std::int64_t>{}, {0}, {1}, {2}, {0, 2}, {1, 2}}) {
      expect_equal(sum(x.cuda(), axes), sum(x, axes), std::string(name_of(dtype)));
    }
    expect_equal(mean(x.cuda(), {1}, true), mean(x, {1}, true), std::string(name_of(dtype)));
  }
  const Tensor ones = Tensor::ones({1000, 333}, DType::kI32);
  expect_equal(sum(ones.cuda()), sum(ones), "int32");
  const Tensor many = random({300000}, DType::kF64);
  expect_near(sum(many.cuda()), sum(many), 1e-10, "many");
  expect_equal(sum(ones.to(DType::kBool).cuda(), {0}), sum(ones.to(DType::kBool), {0}), "bool");
  EXPECT_EQ(sum(Tensor::empty({0, 3}, DType::kF32, kGpu)).item(), 0.0);
}

TEST(DeviceTensor, EqualInputsGiveEqualSums) {
  const Tensor x = random({70001}).cuda();
  EXPECT_TRUE(bitwise_equal(sum(x), sum(x.clone())));
}

TEST(DeviceTensor, GradientsAreThoseOfTheHost) {
  const auto loss = [](const Tensor& w, const Tensor& b, const Tensor& x) {
    const Tensor y = relu(x * w + b) / 2.0 - sqrt(square(w) + 1.0);
    return mean(abs(y) * y.slice(0, 0, 1) + (-y).t().reshape({4, 6}));
  };
  const Tensor x = random({4, 6}, DType::kF64, 3);
  Tensor w = random({6}, DType::kF64, 1).requires_grad_();
  Tensor b = random({4, 1}, DType::kF64, 2).requires_grad_();
  Tensor w_there = w.detach().cuda().requires_grad_();
  Tensor b_there = b.detach().cuda().requires_grad_();
  loss(w, b, x).backward();
  loss(w_there, b_there, x.cuda()).backward();
  expect_near(w_there.grad(), w.grad(), 1e-14, "w");
  expect_near(b_there.grad(), b.grad(), 1e-14, "b");
}

TEST(DeviceTensor, GradientsOfEachFunctionAgree) {
  for (const auto function : {exp, log, tanh, sigmoid, relu, sqrt, neg, abs, square, rsqrt,
                              reciprocal, sin, cos, erf, log1p}) {
    Tensor x = (abs(random({50}, DType::kF64)) + 0.5).requires_grad_();
    Tensor y = x.detach().cuda().requires_grad_();
    function(x).backward(x.detach());
    function(y).backward(y.detach());
    expect_near(y.grad(), x.grad(), 1e-13, "a gradient");
  }
}

TEST(DeviceTensor, GradientsGoThroughMovesAndConversions) {
  Tensor x = random({3}).requires_grad_();
  const Tensor y = (x.cuda() * 2.0).to(DType::kF64).cpu() * 3.0;
  sum(y).backward();
  EXPECT_EQ(x.grad().device(), Device{});
  EXPECT_EQ(x.grad().to_vector(), (std::vector<double>{6, 6, 6}));
}

TEST(DeviceTensor, TensorsOfTwoDevicesAreRefusedByName) {
  const Tensor x = Tensor::ones({2});
  const std::string error = message_of<InvalidArgumentError>([&] { x + x.cuda(); });
  EXPECT_THAT(error, HasSubstr("add: tensors on cpu and cuda:0"));
  EXPECT_THAT(error, HasSubstr(".to("));
  Tensor leaf = x.clone().requires_grad_();
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { leaf.set_grad(x.cuda()); }),
              HasSubstr("set_grad"));
}

TEST(DeviceTensor, DevicesAndMemoryThatAreNotThereAreNamed) {
  EXPECT_THAT(message_of<UnsupportedError>([] { Tensor::ones({2}).cuda(99); }),
              HasSubstr("'cuda:99' cannot be used"));
  const std::string error = message_of<OutOfMemoryError>(
      [] { Tensor::empty({std::int64_t{1} << 40}, DType::kF32, kGpu); });
  EXPECT_THAT(error, HasSubstr("cuda:0"));
  EXPECT_THAT(error, HasSubstr("4398046511104 bytes"));
}

TEST(DeviceTensor, NamesOfDevicesAreReadAndWritten) {
  EXPECT_EQ(parse_device("cuda"), kGpu);
  EXPECT_EQ(parse_device("cuda:1"), kOther);
  EXPECT_EQ(parse_device("cpu:0"), Device{});
  EXPECT_EQ(to_string(kOther), "cuda:1");
  for (const char* name : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "cpu:1"}) {
    EXPECT_THROW(parse_device(name), InvalidArgumentError) << name;
  }
}

}  // namespace
}  // namespace hvd
