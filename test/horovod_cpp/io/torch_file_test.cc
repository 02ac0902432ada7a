// A file as PyTorch writes it (test/support/reference/optim.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "horovod_cpp/io/safetensors.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "test/horovod_cpp/optim/optim_reference.h"
#include "test/support/temporary_folder.h"

namespace hvd {
namespace io {
namespace {

using ::testing::ElementsAre;

TEST(PyTorchFile, HasTheValuesOfEveryDtype) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                            DType::kI32, DType::kI16, DType::kI8}) {
    const Tensor given = optim_reference("io/" + std::string(name_of(dtype)));
    EXPECT_EQ(given.dtype(), dtype);
    EXPECT_EQ(given.shape(), (Shape{2, 3}));
    EXPECT_THAT(given.to_vector(), ElementsAre(-3, 0, 7, 1, 2, 127)) << name_of(dtype);
  }
  EXPECT_EQ(optim_reference("io/uint8").dtype(), DType::kU8);
  EXPECT_THAT(optim_reference("io/uint8").to_vector(), ElementsAre(3, 0, 7, 1, 2, 127));
  EXPECT_EQ(optim_reference("io/bool").dtype(), DType::kBool);
  EXPECT_THAT(optim_reference("io/bool").to_vector(), ElementsAre(0, 0, 1, 1, 1, 1));
  EXPECT_THAT(optim_reference("io/bool_of_three").to_vector(), ElementsAre(1, 0, 1));
  EXPECT_EQ(optim_reference("io/scalar").shape(), Shape{});
  EXPECT_EQ(optim_reference("io/scalar").item(), static_cast<double>(0.1f));
  EXPECT_EQ(optim_reference("io/empty").shape(), (Shape{3, 0, 2}));
  EXPECT_EQ(optim_reference("io/empty").dtype(), DType::kF16);
  const std::vector<double> special = optim_reference("io/special").to_vector();
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], HUGE_VAL);
  EXPECT_EQ(special[2], -HUGE_VAL);
  EXPECT_TRUE(std::signbit(special[3]));
}

TEST(PyTorchFile, IsWrittenAgainByteForByte) {
  const TemporaryFolder folder;
  const StateFile state = load(reference_path("optim"));
  EXPECT_EQ(state.metadata, (Metadata{{"format", "pt"}}));
  save(folder.file("a"), state.tensors, state.metadata);
  std::ifstream file(reference_path("optim"), std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  EXPECT_TRUE(folder.read("a") == bytes.str());
}

TEST(PyTorchFile, LoadsIntoAModelThatGivesTheSameOutput) {
  nn::Sequential model(nn::Linear(4, 6), nn::ReLU(), nn::Linear(6, 3));
  NamedTensors state;
  for (const char* name : {"0.weight", "0.bias", "2.weight", "2.bias"}) {
    state.emplace_back(name, optim_reference(std::string("mlp/") + name));
  }
  model.load_state_dict(state);
  EXPECT_THAT(model(optim_reference("mlp_run/input")).to_vector(),
              ::testing::Pointwise(::testing::DoubleNear(1e-6),
                                   optim_reference("mlp_run/output").to_vector()));
}

}  // namespace
}  // namespace io
}  // namespace hvd
