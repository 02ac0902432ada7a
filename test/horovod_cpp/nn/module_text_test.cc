#include <gtest/gtest.h>

#include <memory>
#include <sstream>

#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/nn/options.h"

namespace hvd {
namespace nn {
namespace {

std::string text_of(const Module& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

TEST(ModuleText, ShowsTheOptionsOfALayer) {
  EXPECT_EQ(text_of(Linear(4, 2, false)), "Linear(in_features=4, out_features=2, bias=False)");
  EXPECT_EQ(text_of(Conv2d(4, 8, 3, {.stride = 2, .padding = {0, 1}, .groups = 2})),
            "Conv2d(4, 8, kernel_size=(3, 3), stride=(2, 2), padding=(0, 1), groups=2)");
  EXPECT_EQ(text_of(Dropout(0.25)), "Dropout(p=0.25, inplace=False)");
  EXPECT_EQ(text_of(ReLU()), "ReLU()");
}

TEST(ModuleText, NestsSubModules) {
  const Sequential model(Linear(4, 2), std::make_shared<Sequential>(ReLU(), Dropout()));
  EXPECT_EQ(text_of(model),
            "Sequential(\n"
            "  (0): Linear(in_features=4, out_features=2, bias=True)\n"
            "  (1): Sequential(\n"
            "    (0): ReLU()\n"
            "    (1): Dropout(p=0.5, inplace=False)\n"
            "  )\n"
            ")");
}

TEST(ModuleText, TakesTheWordsOfAUsersModule) {
  struct Scaled : Module {
    Scaled() { register_module("inner", Flatten()); }
    Tensor forward(const Tensor& input) override { return input; }
    std::string extra_repr() const override { return "by=2"; }
  };
  EXPECT_EQ(text_of(Scaled()), "Scaled(\n  by=2\n  (inner): Flatten(start_dim=1, end_dim=-1)\n)");
}

TEST(ModuleText, PrintsNumbersAsPythonDoes) {
  EXPECT_EQ(nn::text_of(1e-5), "1e-05");
  EXPECT_EQ(nn::text_of(0.0001), "0.0001");
  EXPECT_EQ(nn::text_of(1.0), "1.0");
  EXPECT_EQ(nn::text_of(0.0), "0.0");
  EXPECT_EQ(nn::text_of(123456.0), "123456.0");
  EXPECT_EQ(nn::text_of(1e16), "1e+16");
  EXPECT_EQ(nn::text_of(Shape{3}), "(3,)");
}

}  // namespace
}  // namespace nn
}  // namespace hvd
