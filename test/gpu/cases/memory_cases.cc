#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/base/half.h"
#include "ops/cuda/caller_streams.h"
#include "ops/cuda/copy_tile.h"
#include "ops/cuda/module_memory.h"
#include "test/gpu/cases/guarded.h"

// Memory and arithmetic of tensors of our own, against the same elements computed here.
namespace hvd::engine {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kDevice = 0;

// Memory of the device with a copy of `values`.
class OnDevice {
 public:
  explicit OnDevice(const Bytes& values)
      : bytes_(values.size()), data_(cuda_memory().allocate(kDevice, values.size())) {
    cuda_memory().copy_from_host(kDevice, data_, values.data(), bytes_);
  }
  ~OnDevice() { cuda_memory().deallocate(kDevice, data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  template <typename T = void>
  T* data() const {
    return static_cast<T*>(data_);
  }
  Bytes read() const {
    Bytes values(bytes_);
    cuda_memory().copy_to_host(kDevice, values.data(), data_, bytes_);
    return values;
  }

 private:
  std::size_t bytes_;
  void* data_;
};

template <typename T>
std::vector<T> elements(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <int N>
Strided<N> dense(std::int64_t numel) {
  Strided<N> shape;
  shape.numel = numel;
  shape.axes = 1;
  shape.extent[0] = numel;
  for (int n = 0; n < N; ++n) shape.step[0][n] = 1;
  return shape;
}

DeviceArithmetic& arithmetic() {
  return cuda_memory().arithmetic(kDevice);
}

constexpr std::int64_t kNumels[] = {1, 255, 1024, 1025, 70001};

template <typename T>
void combine(DType dtype) {
  for (const std::int64_t numel : kNumels) {
    const auto a = test::random_elements(dtype, numel, 1);
    const auto b = test::random_elements(dtype, numel, 2);
    for (const Binary op : {Binary::kAdd, Binary::kSub, Binary::kMul, Binary::kDiv,
                            Binary::kMaximum, Binary::kReluGrad}) {
      const OnDevice x(a);
      const OnDevice y(b);
      const OnDevice out(Bytes(a.size(), std::byte{0xa5}));
      arithmetic().binary(op, dtype, dense<3>(numel), out.data(), x.data(), y.data());
      std::vector<T> expected = elements<T>(a);
      const std::vector<T> right = elements<T>(b);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] = cuda::narrow<T>(
            element::binary_of(op, cuda::widen(expected[i]), cuda::widen(right[i])));
      }
      EXPECT_EQ(out.read(), bytes_of(expected)) << name_of(dtype) << " " << numel;
    }
  }
}

TEST(CudaMemory, CombinesEveryElementOnce) {
  combine<float>(DType::kF32);
  combine<double>(DType::kF64);
  combine<Float16>(DType::kF16);
  combine<BFloat16>(DType::kBF16);
}

TEST(CudaMemory, FillsRowsThatLieApartAndNothingBetween) {
  const std::vector<std::int32_t> before(30, -1);
  const OnDevice memory(bytes_of(before));
  Strided<1> shape;  // [5, 3] of rows of 6
  shape.numel = 15;
  shape.axes = 2;
  shape.extent[0] = 5;
  shape.extent[1] = 3;
  shape.step[0][0] = 6;
  shape.step[1][0] = 1;
  const std::int32_t seven = 7;
  arithmetic().fill(shape, sizeof seven, memory.data(), &seven);
  std::vector<std::int32_t> expected = before;
  for (std::size_t i = 0; i < 15; ++i) expected[i / 3 * 6 + i % 3] = 7;
  EXPECT_EQ(elements<std::int32_t>(memory.read()), expected);
}

TEST(CudaMemory, ConvertsAndTransposes) {
  const std::vector<float> values = {1.5f, -2.5f, 3, 4, 5, 6};  // [2, 3]
  const OnDevice in(bytes_of(values));
  const OnDevice out(Bytes(6 * sizeof(std::int64_t)));
  Strided<2> shape;
  shape.numel = 6;
  shape.axes = 2;
  shape.extent[0] = 3;
  shape.extent[1] = 2;
  shape.step[0][0] = 2;
  shape.step[1][0] = 1;
  shape.step[0][1] = 1;
  shape.step[1][1] = 3;
  arithmetic().copy(shape, DType::kI64, out.data(), DType::kF32, in.data());
  EXPECT_EQ(elements<std::int64_t>(out.read()), (std::vector<std::int64_t>{1, 4, -2, 5, 3, 6}));
}

TEST(CudaMemory, SumsManyElementsInParts) {
  for (const std::int64_t numel : {std::int64_t{1}, std::int64_t{129}, std::int64_t{1000003}}) {
    const OnDevice in(bytes_of(std::vector<float>(static_cast<std::size_t>(numel), 0.25f)));
    const OnDevice out(Bytes(sizeof(float)));
    SumShape shape;
    shape.kept.numel = 1;
    shape.reduced = dense<1>(numel);
    arithmetic().sum(DType::kF32, shape, out.data(), in.data());
    EXPECT_EQ(elements<float>(out.read()).front(), static_cast<float>(numel) / 4);
  }
}

TEST(CudaMemory, TakesStepsOfOptimizersWithTheHostsBits) {
  constexpr std::int64_t kNumel = 5000;
  const auto start = test::random_elements(DType::kF32, kNumel, 1);
  const auto gradient = test::random_elements(DType::kF32, kNumel, 2);
  const OnDevice param(start);
  const OnDevice grad(gradient);
  const OnDevice state(Bytes(start.size()));
  std::vector<float> expected = elements<float>(start);
  std::vector<float> buffer(expected.size());
  const std::vector<float> g = elements<float>(gradient);
  SgdRule<float> rule;
  rule.lr = 0.1f;
  rule.momentum = 0.9f;
  rule.weight_decay = 0.01f;
  rule.nesterov = true;
  for (int step = 0; step < 3; ++step) {
    arithmetic().sgd(rule, kNumel, param.data<float>(), grad.data<float>(), state.data<float>());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // Rounded after each operation, as the host's loops are.
      volatile float decay = rule.weight_decay * expected[i];
      volatile float d = rule.sign * g[i] + decay;
      volatile float kept = rule.momentum * buffer[i];
      buffer[i] = kept + rule.take * d;
      volatile float ahead = rule.momentum * buffer[i];
      volatile float by = rule.lr * (d + ahead);
      expected[i] = expected[i] - by;
    }
  }
  EXPECT_EQ(param.read(), bytes_of(expected));
}

TEST(CudaMemory, GivesNothingWhereThereIsNotEnough) {
  EXPECT_EQ(cuda_memory().allocate(kDevice, std::size_t{1} << 45), nullptr);
  const OnDevice later(Bytes(16));  // and goes on
  EXPECT_EQ(later.read(), Bytes(16));
}

TEST(CudaMemory, APointOfItsStreamPassesWithTheWork) {
  const OnDevice memory(Bytes(1024));
  const std::uint8_t one = 1;
  arithmetic().fill(dense<1>(1024), 1, memory.data(), &one);
  const Fence fence = CallerStreams().record(kDevice, cuda_memory().stream(kDevice));
  fence.wait();
  EXPECT_TRUE(fence.reached());
  EXPECT_EQ(memory.read(), Bytes(1024, std::byte{1}));
}

}  // namespace
}  // namespace hvd::engine
