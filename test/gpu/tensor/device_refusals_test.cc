#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/tensor/random.h"

// What a device does not have says so, by its name.
namespace hvd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Refused {
  std::string name;  // as the error has it
  std::function<void(const Tensor& a)> call;
};

// `a` is float32 [2, 2] on a device.
std::vector<Refused> refused() {
  const Tensor index = Tensor::zeros({2, 2}, DType::kI64);
  return {
      {"pow", [](const Tensor& a) { pow(a, 3); }},
      {"matmul", [](const Tensor& a) { matmul(a, a); }},
      {"linear", [](const Tensor& a) { linear(a, a); }},
      {"gt", [](const Tensor& a) { a > 0.0; }},
      {"eq", [](const Tensor& a) { eq(a, a); }},
      {"logical_not", [](const Tensor& a) { logical_not(a); }},
      {"where", [](const Tensor& a) { where(a.to(DType::kBool), a, a); }},
      {"argmax", [](const Tensor& a) { argmax(a); }},
      {"max", [](const Tensor& a) { max(a); }},
      {"softmax", [](const Tensor& a) { softmax(a, 1); }},
      {"log_softmax", [](const Tensor& a) { log_softmax(a, 0); }},
      {"gather", [=](const Tensor& a) { gather(a, 0, index); }},
      {"index_select", [=](const Tensor& a) { index_select(a, 0, index.select(0, 0)); }},
      {"prod", [](const Tensor& a) { prod(a); }},
      {"cumsum", [](const Tensor& a) { cumsum(a, 0); }},
      {"argsort", [](const Tensor& a) { argsort(a, 0); }},
      {"gelu", [](const Tensor& a) { gelu(a); }},
      {"silu", [](const Tensor& a) { silu(a); }},
      {"leaky_relu", [](const Tensor& a) { leaky_relu(a, 0.1); }},
      {"mse_loss", [](const Tensor& a) { mse_loss(a, a); }},
      {"cross_entropy", [](const Tensor& a) { cross_entropy(a, Tensor::zeros({2}, DType::kI64)); }},
      {"layer_norm", [](const Tensor& a) { layer_norm(a, {2}); }},
      {"dropout", [](const Tensor& a) { dropout(a, 0.5, true); }},
      {"conv2d",
       [](const Tensor& a) {
         nn::Conv2d(1, 1, 1).forward(a.reshape({1, 1, 2, 2}));
       }},
      {"max_pool2d",
       [](const Tensor& a) {
         max_pool2d(a.reshape({1, 1, 2, 2}), 2);
       }},
      {"avg_pool2d",
       [](const Tensor& a) {
         avg_pool2d(a.reshape({1, 1, 2, 2}), {.kernel_size = 2});
       }},
      {"batch_norm",
       [](const Tensor& a) {
         nn::BatchNorm2d(1).forward(a.reshape({1, 1, 2, 2}));
       }},
  };
}

// A parameter whose gradient is `a`.
Tensor param_of(const Tensor& a) {
  Tensor param = a.clone().requires_grad_();
  param.set_grad(a);
  return param;
}

std::vector<Refused> refused_updates() {
  return {
      {"Adagrad", [](const Tensor& a) { optim::Adagrad({param_of(a)}).step(); }},
      {"half-precision",
       [](const Tensor& a) { optim::SGD({param_of(a.to(DType::kBF16))}).step(); }},
      {"clip_grad_norm with a norm_type",
       [](const Tensor& a) { optim::clip_grad_norm_({param_of(a)}, 1.0, {.norm_type = 3}); }},
      {"clip_grad_value", [](const Tensor& a) { optim::clip_grad_value_({param_of(a)}, 1.0); }},
  };
}

TEST(DeviceRefusals, NameTheOperationAndSayWhatToDo) {
  const Tensor a = Tensor::ones({2, 2}).cuda();
  std::vector<Refused> all = refused();
  std::ranges::move(refused_updates(), std::back_inserter(all));
  for (const Refused& each : all) {
    try {
      each.call(a);
      ADD_FAILURE() << each.name << " was not refused";
    } catch (const UnsupportedError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(each.name), HasSubstr("cuda:0"),
                                      HasSubstr("move it with .cpu()")));
    }
  }
}

}  // namespace
}  // namespace hvd
