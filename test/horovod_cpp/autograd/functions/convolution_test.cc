#include "horovod_cpp/autograd/functions/convolution.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/reference_file.h"
#include "test/support/message_of.h"

namespace hvd {
namespace {

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& b)>;

// A call that test/support/reference/conv.py made with PyTorch.
struct Case {
  std::string name;
  Function call;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

Tensor reference(const std::string& name) {
  return reference_tensor("conv", name);
}

// The stored numbers are multiples of 1/64 and small: exact in both dtypes.
void expect_equal(const Tensor& given, const Tensor& expected) {
  EXPECT_EQ(given.shape(), expected.shape());
  EXPECT_EQ(given.to_vector(), expected.to_vector());
}

class Convolutions : public testing::TestWithParam<Case> {};

TEST_P(Convolutions, GivePyTorchsNumbersForwardAndBackward) {
  const auto& [name, call] = GetParam();
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const auto leaf = [&, at = name + "/"](const char* what) {
      return reference(at + what).to(dtype).clone().requires_grad_();
    };
    Tensor x = leaf("input");
    Tensor w = leaf("weight");
    Tensor b = leaf("bias");
    const Tensor y = call(x, w, b);
    expect_equal(y, reference(name + "/output"));
    y.backward(reference(name + "/grad_output").to(dtype));
    expect_equal(x.grad(), reference(name + "/grad_input"));
    expect_equal(w.grad(), reference(name + "/grad_weight"));
    expect_equal(b.grad(), reference(name + "/grad_bias"));
  }
}

TEST_P(Convolutions, HaveGradientsThatMatchDifferences) {
  const auto& [name, call] = GetParam();
  if (name.ends_with("_deep")) return;  // thousands of elements
  Inputs inputs;
  for (const char* what : {"/input", "/weight", "/bias"}) {
    inputs.push_back(reference(name + what).to(DType::kF64).clone().requires_grad_());
  }
  const auto& convolution = call;  // clang 14 captures no structured binding
  gradcheck([&](const Inputs& in) { return convolution(in[0], in[1], in[2]); }, inputs);
}

TEST_P(Convolutions, TakeImagesInAnyLayout) {
  const auto& [name, call] = GetParam();
  const Tensor x = reference(name + "/input");
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.dim()));
  for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = x.dim() - 1 - static_cast<int>(i);
  const Tensor turned = x.permute(axes).contiguous().permute(axes);
  ASSERT_FALSE(turned.is_contiguous());
  expect_equal(call(turned, reference(name + "/weight"), reference(name + "/bias")),
               reference(name + "/output"));
}

using T = const Tensor&;
INSTANTIATE_TEST_SUITE_P(
    Reference, Convolutions,
    testing::Values(
        Case{"conv1d", [](T x, T w, T b) { return conv1d(x, w, b); }},
        Case{"conv1d_options", [](T x, T w, T b) { return conv1d(x, w, b, 2, 3, 2, 2); }},
        Case{"conv1d_same", [](T x, T w, T b) { return conv1d(x, w, b, 1, "same", 3); }},
        Case{"conv2d", [](T x, T w, T b) { return conv2d(x, w, b, 1, 1); }},
        Case{"conv2d_deep", [](T x, T w, T b) { return conv2d(x, w, b, 1, 1); }},
        Case{"conv2d_pairs",
             [](T x, T w, T b) {
               return conv2d(x, w, b, {2, 3}, {2, 1}, {2, 1});
             }},
        Case{"conv2d_groups", [](T x, T w, T b) { return conv2d(x, w, b, 2, 1, 1, 3); }},
        Case{"conv2d_depthwise", [](T x, T w, T b) { return conv2d(x, w, b, 1, 1, 1, 5); }},
        Case{"conv2d_same",
             [](T x, T w, T b) {
               return conv2d(x, w, b, 1, "same", {1, 2});
             }},
        Case{"conv_transpose2d", [](T x, T w, T b) { return conv_transpose2d(x, w, b); }},
        Case{"conv_transpose2d_options",
             [](T x, T w, T b) {
               return conv_transpose2d(x, w, b, {2, 3}, {1, 0}, {1, 2}, 2, {2, 1});
             }},
        Case{"conv_transpose2d_deep",
             [](T x, T w, T b) { return conv_transpose2d(x, w, b, 2, 1); }}),
    [](const auto& each) { return each.param.name; });

TEST(Convolution, OfManyBlocksIsThatOfEachImage) {  // 3 images of 24 x 24 are several blocks
  Generator generator(1);
  const Tensor x = randint(-4, 5, {3, 17, 24, 24}, generator).to(DType::kF32);
  const Tensor w = randint(-4, 5, {70, 17, 3, 3}, generator).to(DType::kF32);
  const Tensor y = conv2d(x, w, {}, 1, 1);
  for (std::int64_t i = 0; i < 3; ++i) {
    expect_equal(y.slice(0, i, i + 1), conv2d(x.slice(0, i, i + 1), w, {}, 1, 1));
  }
}

TEST(Convolution, LeavesActivationsChannelsLastUntilSomebodyLooks) {
  Generator generator(1);
  const Tensor x = randint(-4, 5, {2, 3, 4, 5}, generator).to(DType::kF32);
  const Tensor w = randint(-4, 5, {6, 3, 3, 3}, generator).to(DType::kF32);
  const Tensor y = conv2d(x, w, {}, 1, 1);
  const Tensor positive = relu(y);
  EXPECT_FALSE(positive.is_contiguous());
  EXPECT_FALSE((y + positive).is_contiguous());
  const Tensor usual = y.contiguous();
  expect_equal(relu(usual), positive);
  expect_equal(usual + relu(usual), y + positive);
  expect_equal(usual + positive, y + positive);
  expect_equal(usual * 2.0, y + usual);
}

TEST(Convolution, SumsTheGradientsOfItsUses) {  // of channels-last images, in place
  Generator generator(1);
  Tensor x = Tensor::ones({2, 3, 4, 5}).requires_grad_();
  const Tensor w = randint(-4, 5, {3, 3, 1, 1}, generator).to(DType::kF32);
  const Tensor y = conv2d(x, w);
  sum(conv2d(y, w) + conv2d(y, w) + conv2d(y, w)).backward();
  const Tensor three = x.grad().clone();
  x.set_grad({});
  sum(conv2d(conv2d(x, w), w) * 3.0).backward();
  expect_equal(x.grad(), three);
}

TEST(Convolution, ErrorsNameTheFunctionAndBothShapes) {
  const Tensor x = Tensor::ones({1, 4, 5, 5});
  const Tensor w = Tensor::ones({2, 4, 3, 3});
  const auto error = [](const std::function<Tensor()>& call) {
    return message_of<InvalidArgumentError>([&] { call(); });
  };
  const std::string shapes = "input [1, 4, 5, 5], weight [2, 4, 3, 3]: ";
  EXPECT_EQ(error([&] { return conv2d(x, w, {}, {1, 0}); }), "conv2d: " + shapes + "stride 0");
  EXPECT_EQ(error([&] { return conv2d(x, w, {}, 1, 0, 0); }), "conv2d: " + shapes + "dilation 0");
  EXPECT_EQ(error([&] { return conv2d(x, w, {}, 1, 0, 3); }),
            "conv2d: " + shapes + "the kernel does not fit");
  EXPECT_EQ(error([&] {
              return conv2d(x, w, {}, 1, {0, -1});
            }),
            "conv2d: " + shapes + "padding -1");
  EXPECT_EQ(error([&] { return conv2d(x, w, {}, 2, "same"); }),
            "conv2d: " + shapes + "padding 'same' needs a stride of 1");
  EXPECT_EQ(error([&] { return conv2d(x, w, {}, 1, 0, 1, 2); }),
            "conv2d: " + shapes + "channels differ");
  EXPECT_EQ(error([&] { return conv2d(x, w, {}, 1, 0, 1, 0); }), "conv2d: " + shapes + "groups 0");
  EXPECT_EQ(error([&] { return conv2d(x, w, Tensor::ones({3})); }),
            "conv2d: " + shapes + "bias [3]");
  EXPECT_EQ(error([&] {
              return conv2d(x, Tensor::ones({3, 2, 1, 1}), {}, 1, 0, 1, 2);
            }),
            "conv2d: input [1, 4, 5, 5], weight [3, 2, 1, 1]: no multiple of 2 groups");
  EXPECT_EQ(error([&] {
              return conv1d(Tensor::ones({1, 4, 2}), Tensor::ones({2, 4, 3}));
            }),
            "conv1d: input [1, 4, 2], weight [2, 4, 3]: the kernel does not fit");
  EXPECT_EQ(error([&] { return conv_transpose2d(x, w); }),
            "conv_transpose2d: " + shapes + "channels differ");
  EXPECT_EQ(error([&] {
              return conv_transpose2d(x, Tensor::ones({4, 2, 3, 3}), {}, 2, 0, 2);
            }),
            "conv_transpose2d: input [1, 4, 5, 5], weight [4, 2, 3, 3]: output_padding 2: expected "
            "less than the stride or the dilation");
  EXPECT_EQ(error([&] { return conv2d(x, w, {}, 1, "full"); }),
            "padding 'full': expected 'same', 'valid' or numbers");
  EXPECT_THROW(conv1d(x, w), InvalidArgumentError);
  EXPECT_THROW(conv2d(Tensor::ones({4, 5, 5}), w), InvalidArgumentError);
  EXPECT_THROW(conv2d(x, Tensor::ones({2, 4, 3, 3}, DType::kF64)), InvalidArgumentError);
}

}  // namespace
}  // namespace hvd
