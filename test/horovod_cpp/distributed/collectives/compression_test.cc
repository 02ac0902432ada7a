#include "horovod_cpp/distributed/collectives/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/distributed/worlds.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Compression, RoundsAsItsWireFormatDoesAndLeavesExactValuesExact) {
  run_sets(2, [](const ProcessSet& all) {
    for (const Compression& compression : {Compression::fp16(), Compression::bf16()}) {
      const Tensor exact = Tensor::full({300}, all.rank() + 2);
      const Tensor sum =
          allreduce(exact, {.op = ReduceOp::kSum, .compression = compression, .process_set = all});
      EXPECT_EQ(sum.to_vector()[299], 5) << compression.name();
    }
    // 1 + 2^-9 does not fit into bfloat16's 8 bits.
    const Tensor fine = Tensor::full({2}, 1.001953125);
    EXPECT_EQ(
        allreduce(fine, {.compression = Compression::bf16(), .process_set = all}).to_vector()[0],
        1);
    EXPECT_EQ(
        allreduce(fine, {.compression = Compression::fp16(), .process_set = all}).to_vector()[0],
        1.001953125);
  });
}

TEST(Compression, Int8LosesLessThanItsBlockScaleSays) {
  run_sets(2, [](const ProcessSet& all) {
    Generator generator(7);
    const Tensor values = randn({1000}, DType::kF32, generator);
    const Tensor average =
        allreduce(values, {.compression = Compression::int8(), .process_set = all});
    for (std::size_t i = 0; i < 1000; ++i) {
      EXPECT_NEAR(average.to_vector()[i], values.to_vector()[i], 0.05);
      if (HasFailure()) return;
    }
  });
}

TEST(Compression, IntegersTravelAsTheyAre) {
  run_sets(2, [](const ProcessSet& all) {
    const Tensor large = Tensor::full({2}, 70001, DType::kI64);
    for (const Compression& compression :
         {Compression::fp16(), Compression::int8(), Compression::powersgd(1)}) {
      const auto both =
          grouped_allreduce({large, Tensor::ones({2})},
                            {.op = ReduceOp::kSum, .compression = compression, .process_set = all});
      EXPECT_THAT(both[0].to_vector(), ElementsAre(140002, 140002));
      EXPECT_NEAR(both[1].to_vector()[0], 2, 0.02);
    }
  });
}

// A matrix of this rank, of small integers; equal on every rank that passes the same seed.
Tensor low_rank_matrix(std::int64_t rows, std::int64_t columns, std::int64_t rank, double seed) {
  Tensor matrix = Tensor::zeros({rows, columns});
  for (std::int64_t k = 0; k < rank; ++k) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        matrix.data<float>()[i * columns + j] +=
            static_cast<float>(std::cos(seed + static_cast<double>(i * (k + 1))) *
                               std::sin(seed + static_cast<double>((j + 1) * (k + 2))));
      }
    }
  }
  return matrix;
}

TEST(PowerSgd, IsExactUpToRoundingWhenItsRankIsAtLeastTheMatrixs) {
  for (const int size : {1, 2, 3, 4}) {
    for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kSum}) {
      run_sets(size, [&](const ProcessSet& all) {
        // Multiples of one matrix of rank 2.
        const Tensor mine = low_rank_matrix(40, 30, 2, 0.5) * static_cast<double>(all.rank() + 1);
        const Tensor exact = allreduce(mine, {.op = op, .process_set = all});
        for (const int rank : {2, 3}) {
          const Tensor got = allreduce(
              mine, {.op = op, .compression = Compression::powersgd(rank), .process_set = all});
          for (std::size_t i = 0; i < 1200; ++i) {
            EXPECT_NEAR(got.to_vector()[i], exact.to_vector()[i], 1e-4);
            if (HasFailure()) return;
          }
        }
      });
    }
  }
}

TEST(PowerSgd, GivesTheSameBitsOnEveryRankAndInEveryRun) {
  std::vector<Tensor> results(3);
  for (int run = 0; run < 2; ++run) {
    run_sets(3, [&](const ProcessSet& all) {
      Generator generator(static_cast<std::uint64_t>(all.rank()));
      const Tensor mine = randn({32, 32}, DType::kF32, generator);
      const Tensor got = allreduce(
          mine, {.name = "w", .compression = Compression::powersgd(2), .process_set = all});
      Tensor& kept = results[static_cast<std::size_t>(all.rank())];
      if (run == 1) {
        EXPECT_TRUE(bitwise_equal(kept, got));
      }
      kept = got;
    });
  }
  EXPECT_TRUE(bitwise_equal(results[0], results[1]));
  EXPECT_TRUE(bitwise_equal(results[0], results[2]));
}

TEST(PowerSgd, LeavesAloneWhatLowRankDoesNotServe) {
  const auto compressor = Compression::powersgd(2).compressor();
  EXPECT_EQ(compressor->for_tensor("bias", {1000}, DType::kF32), nullptr);
  EXPECT_EQ(compressor->for_tensor("scalar", {}, DType::kF32), nullptr);
  EXPECT_EQ(compressor->for_tensor("thin", {1000, 4}, DType::kF32), nullptr);
  EXPECT_EQ(compressor->for_tensor("empty", {0, 64}, DType::kF32), nullptr);
  EXPECT_EQ(compressor->for_tensor("integers", {64, 64}, DType::kI64), nullptr);
  EXPECT_NE(compressor->for_tensor("weight", {64, 64}, DType::kF64), nullptr);
  EXPECT_NE(compressor->for_tensor("kernel", {32, 16, 3, 3}, DType::kF32), nullptr);
  EXPECT_THAT(message_of<InvalidArgumentError>([] { Compression::powersgd(0); }),
              HasSubstr("rank 0"));
}

// Error feedback: what one call loses, later ones bring. The sum of what came approaches the sum of
// what was sent, although each call is far from exact.
TEST(PowerSgd, BringsLaterWhatItLost) {
  Generator generator(3);
  const Tensor matrix = randn({32, 32}, DType::kF32, generator);
  const auto compressor =
      Compression::powersgd(2).compressor()->for_tensor("w", {32, 32}, DType::kF32);
  Tensor total = Tensor::zeros({32, 32});
  Tensor output = Tensor::zeros({32, 32});
  constexpr int kCalls = 200;
  const auto distance = [&](const Tensor& tensor, double factor) {
    double squares = 0;
    for (std::size_t i = 0; i < 1024; ++i) {
      const double d = tensor.to_vector()[i] * factor - matrix.to_vector()[i];
      squares += d * d;
    }
    return std::sqrt(squares / 1024);
  };
  for (int call = 0; call < kCalls; ++call) {
    auto reduced = compressor->next_round(1, compressor->compress(matrix));
    compressor->decompress(reduced, output);
    if (call == 0) {
      EXPECT_GT(distance(output, 1), 0.5);
    }
    total.add_(output);
  }
  EXPECT_LT(distance(total, 1.0 / kCalls), 0.15);
}

TEST(PowerSgd, FindsItsColumnsAgainAfterATensorOfZeros) {
  const auto compressor =
      Compression::powersgd(2).compressor()->for_tensor("w", {32, 32}, DType::kF32);
  Tensor output = Tensor::ones({32, 32});
  const auto run = [&](const Tensor& tensor) {
    auto reduced = compressor->next_round(1, compressor->compress(tensor));
    compressor->decompress(reduced, output);
  };
  run(Tensor::zeros({32, 32}));
  EXPECT_EQ(output.to_vector()[5], 0);
  const Tensor matrix = low_rank_matrix(32, 32, 2, 1.5);
  run(matrix);
  for (std::size_t i = 0; i < 1024; ++i) {
    EXPECT_NEAR(output.to_vector()[i], matrix.to_vector()[i], 1e-4);
  }
}

// Sends the two halves one after the other.
class Halves final : public TensorCompressor {
 public:
  int rounds() const override { return 2; }
  std::vector<Tensor> compress(const Tensor& tensor) override {
    second_ = tensor.slice(0, tensor.size(0) / 2, tensor.size(0)).clone();
    return {tensor.slice(0, 0, tensor.size(0) / 2).clone()};
  }
  std::vector<Tensor> next_round(int, std::vector<Tensor> reduced) override {
    first_ = reduced.front();
    return {second_};
  }
  void decompress(std::vector<Tensor> reduced, const Tensor& output) override {
    Tensor(output).copy_(concat({first_, reduced.front()}, 0));
  }

 private:
  Tensor first_, second_;
};

class HalvesOfVectors final : public Compressor {
 public:
  std::string name() const override { return "halves"; }
  std::shared_ptr<TensorCompressor> for_tensor(const std::string&, const Shape& shape,
                                               DType) override {
    return shape.size() == 1 ? std::make_shared<Halves>() : nullptr;
  }
};

TEST(Compression, OfAUsersOwnRunsItsRoundsAlsoInGroups) {
  for (const int size : {1, 2, 3}) {
    run_sets(size, [size](const ProcessSet& all) {
      const Compression halves(std::make_shared<HalvesOfVectors>());
      const std::vector<Tensor> tensors = {Tensor::arange(6, DType::kF32), Tensor::ones({2, 2}),
                                           Tensor::arange(3, DType::kF64)};
      const GroupHandle handle = grouped_allreduce_async(
          tensors, {.op = ReduceOp::kSum, .compression = halves, .process_set = all});
      const auto sums = handle.synchronize();
      EXPECT_EQ(sums[0].to_vector()[1], size);
      EXPECT_EQ(sums[0].to_vector()[5], 5.0 * size);
      EXPECT_EQ(sums[1].to_vector()[3], size);
      EXPECT_EQ(sums[2].to_vector()[2], 2.0 * size);
      EXPECT_TRUE(handle.poll());
      EXPECT_EQ(handle.synchronize()[0].to_vector()[5], 5.0 * size);
    });
  }
}

TEST(Compression, ThatDiffersBetweenRanksIsAMismatch) {
  run_sets(2, [](const ProcessSet& all) {
    const Compression mine = all.rank() == 0 ? Compression::fp16() : Compression::none();
    EXPECT_THROW(allreduce(Tensor::ones({2}), {.compression = mine, .process_set = all}),
                 MismatchError);
  });
}

class Broken final : public TensorCompressor {
 public:
  std::vector<Tensor> compress(const Tensor& tensor) override { return {tensor.clone()}; }
  void decompress(std::vector<Tensor>, const Tensor&) override {
    throw InvalidArgumentError("cannot decompress");
  }
};

class BrokenOnes final : public Compressor {
 public:
  std::string name() const override { return "broken"; }
  std::shared_ptr<TensorCompressor> for_tensor(const std::string&, const Shape&, DType) override {
    return std::make_shared<Broken>();
  }
};

TEST(Compression, ACompressorsExceptionComesFromSynchronizeEveryTime) {
  run_sets(2, [](const ProcessSet& all) {
    const Compression broken(std::make_shared<BrokenOnes>());
    const auto handle =
        allreduce_async(Tensor::ones({2}), {.compression = broken, .process_set = all});
    EXPECT_THROW(handle.synchronize(), InvalidArgumentError);
    EXPECT_TRUE(handle.poll());
    EXPECT_THROW(handle.synchronize(), InvalidArgumentError);
  });
}

}  // namespace
}  // namespace hvd
