#include "ops/host/pack.h"

#include <gtest/gtest.h>

#include <vector>

#include "test/support/typed_array.h"

namespace hvd::host {
namespace {

using test::TypedArray;

std::vector<Slice> in_place(std::vector<TypedArray>& arrays) {
  std::vector<Slice> slices;
  for (TypedArray& array : arrays) slices.push_back({array.view(), array.view()});
  return slices;
}

TypedArray counting(DType dtype, std::int64_t numel, double from) {
  TypedArray array(dtype, numel);
  for (std::int64_t i = 0; i < numel; ++i) array.set(i, from + static_cast<double>(i));
  return array;
}

TEST(Pack, PutsEachSliceAtTheNextMultipleOf64Bytes) {
  std::vector<TypedArray> arrays = {counting(DType::kF32, 3, 1), counting(DType::kF32, 16, 10),
                                    counting(DType::kF32, 17, 40)};
  const auto slices = in_place(arrays);
  ASSERT_EQ(packed_bytes(slices), 64u + 64u + 128u);
  std::vector<float> buffer(64, -1.0f);
  pack(slices, buffer.data());
  EXPECT_EQ(buffer[0], 1.0f);
  EXPECT_EQ(buffer[2], 3.0f);
  EXPECT_EQ(buffer[16], 10.0f);
  EXPECT_EQ(buffer[32], 40.0f);
  EXPECT_EQ(buffer[48], 56.0f);
}

TEST(Pack, FillsGapsWithZeros) {
  std::vector<TypedArray> arrays = {counting(DType::kF32, 3, 1), counting(DType::kF32, 1, 9)};
  std::vector<float> buffer(32, -1.0f);
  pack(in_place(arrays), buffer.data());
  for (std::size_t i = 3; i < 16; ++i) EXPECT_EQ(buffer[i], 0.0f) << i;
  for (std::size_t i = 17; i < 32; ++i) EXPECT_EQ(buffer[i], 0.0f) << i;
}

TEST(Pack, EmptySlicesTakeNoRoomAndMayHaveNoMemory) {
  std::vector<TypedArray> arrays = {counting(DType::kU8, 5, 1)};
  auto slices = in_place(arrays);
  const TensorView nothing = {nullptr, 0, DType::kU8, {}};
  slices.insert(slices.begin(), Slice{nothing, nothing});
  slices.push_back({nothing, nothing});
  ASSERT_EQ(packed_bytes(slices), 64u);
  std::vector<std::byte> buffer(64);
  pack(slices, buffer.data());
  EXPECT_EQ(buffer[4], std::byte{5});
  const TypedArray before = arrays[0];
  unpack(buffer.data(), slices);
  EXPECT_EQ(arrays[0], before);
}

TEST(Pack, UnpackRestoresEverySliceOfEveryDtype) {
  for (const DType dtype : test::kAllDTypes) {
    std::vector<TypedArray> inputs;
    std::vector<TypedArray> outputs;
    for (const std::int64_t numel : {1, 0, 7, 64, 129}) {
      inputs.push_back(counting(dtype, numel, 2));
      outputs.emplace_back(dtype, numel);
    }
    std::vector<Slice> slices;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      slices.push_back({inputs[i].view(), outputs[i].view()});
    }
    std::vector<std::byte> buffer(packed_bytes(slices));
    pack(slices, buffer.data());
    unpack(buffer.data(), slices);
    EXPECT_EQ(inputs, outputs) << name_of(dtype);
  }
}

}  // namespace
}  // namespace hvd::host
