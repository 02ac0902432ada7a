// Against what PyTorch gave (test/support/reference/tensor.py), in float64, to 1e-12.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "test/horovod_cpp/autograd/values.h"
#include "test/horovod_cpp/reference_file.h"

namespace hvd {
namespace {

constexpr double kTolerance = 1e-12;
constexpr double kInf = std::numeric_limits<double>::infinity();

using Call = std::function<Tensor(const Inputs&)>;

Tensor list() {
  return integers({2, 0, 2}, {3});
}
Tensor grid() {
  return integers({2, 0, 1, 1, 0, 0, 2, 1}, {2, 4});
}
Tensor mask() {
  return bools({1, 0, 1}, {3});
}

const std::map<std::string, Call>& elementwise_cases() {
  static const std::map<std::string, Call> cases = {
      {"abs", [](const Inputs& x) { return abs(x[0]); }},
      {"sign", [](const Inputs& x) { return sign(x[0]) * x[0]; }},
      {"square", [](const Inputs& x) { return square(x[0]); }},
      {"reciprocal", [](const Inputs& x) { return reciprocal(x[0]); }},
      {"rsqrt", [](const Inputs& x) { return rsqrt(x[0]); }},
      {"sin", [](const Inputs& x) { return sin(x[0]); }},
      {"cos", [](const Inputs& x) { return cos(x[0]); }},
      {"erf", [](const Inputs& x) { return erf(x[0]); }},
      {"log1p", [](const Inputs& x) { return log1p(x[0]); }},
      {"clamp", [](const Inputs& x) { return clamp(x[0], -0.5, 0.75); }},
      {"clamp_min", [](const Inputs& x) { return clamp(x[0], 0.1); }},
      {"maximum", [](const Inputs& x) { return maximum(x[0], x[1]); }},
      {"minimum", [](const Inputs& x) { return minimum(x[0], x[1]); }},
      {"where", [](const Inputs& x) { return where(x[0] > x[1], x[0] * x[0], x[1]); }},
      {"masked_fill", [](const Inputs& x) { return masked_fill(x[0], x[0] > 0.0, 7.0); }},
      {"matmul", [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"matmul_batched", [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"matmul_tall", [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"matmul_vectors", [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"matmul_row", [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"matmul_column", [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {"outer", [](const Inputs& x) { return outer(x[0], x[1]); }},
      {"dot", [](const Inputs& x) { return dot(x[0], x[1]); }},
      {"linear", [](const Inputs& x) { return linear(x[0], x[1], x[2]); }},
  };
  return cases;
}

const std::map<std::string, Call>& arithmetic_cases() {
  static const std::map<std::string, Call> cases = {
      {"add", [](const Inputs& x) { return x[0] + x[1]; }},
      {"sub", [](const Inputs& x) { return x[0] - x[1]; }},
      {"mul", [](const Inputs& x) { return x[0] * x[1]; }},
      {"div", [](const Inputs& x) { return x[0] / x[1]; }},
      {"neg", [](const Inputs& x) { return -x[0]; }},
      {"pow", [](const Inputs& x) { return pow(x[0], 2.5); }},
      {"exp", [](const Inputs& x) { return exp(x[0]); }},
      {"log", [](const Inputs& x) { return log(x[0]); }},
      {"sqrt", [](const Inputs& x) { return sqrt(x[0]); }},
      {"tanh", [](const Inputs& x) { return tanh(x[0]); }},
      {"sigmoid", [](const Inputs& x) { return sigmoid(x[0]); }},
      {"relu", [](const Inputs& x) { return relu(x[0]); }},
  };
  return cases;
}

const std::map<std::string, Call>& reduction_cases() {
  static const std::map<std::string, Call> cases = {
      {"sum",
       [](const Inputs& x) {
         return sum(x[0], {0, 2});
       }},
      {"mean", [](const Inputs& x) { return mean(x[0], {1}, true); }},
      {"var",
       [](const Inputs& x) {
         return var(x[0], {0, 2});
       }},
      {"var_biased", [](const Inputs& x) { return var(x[0], {1}, 0.0, true); }},
      {"std", [](const Inputs& x) { return std(x[0], {1}); }},
      {"norm", [](const Inputs& x) { return norm(x[0]); }},
      {"norm_1", [](const Inputs& x) { return norm(x[0], 1.0, {1}); }},
      {"norm_3", [](const Inputs& x) { return norm(x[0], 3.0, {0}, true); }},
      {"norm_inf", [](const Inputs& x) { return norm(x[0], kInf, {1}); }},
      {"norm_of_zeros", [](const Inputs& x) { return norm(x[0] * 0.0, 2.0, {1}); }},
      {"prod", [](const Inputs& x) { return prod(x[0], 1); }},
      {"prod_all", [](const Inputs& x) { return prod(x[0]); }},
      {"prod_zero",
       [](const Inputs& x) {
         return prod(x[0] * values({1, 0, 1}, {3}), 1, true);
       }},
      {"cumsum", [](const Inputs& x) { return cumsum(x[0], 1); }},
      {"max_axis", [](const Inputs& x) { return max(x[0], 1).values; }},
      {"min_axis", [](const Inputs& x) { return min(x[0], 0, true).values; }},
      {"min", [](const Inputs& x) { return min(x[0]); }},
      {"sort", [](const Inputs& x) { return sort(x[0], 1, true).values; }},
      {"max", [](const Inputs& x) { return max(x[0]); }},
      {"topk", [](const Inputs& x) { return topk(x[0], 2, 1).values; }},
  };
  return cases;
}

const std::map<std::string, Call>& movement_cases() {
  static const std::map<std::string, Call> cases = {
      {"gather", [](const Inputs& x) { return gather(x[0], 0, grid()); }},
      {"scatter",
       [](const Inputs& x) {
         return scatter(x[0], 1, integers({2, 0, 1, 3}, {2, 2}), x[1]);
       }},
      {"scatter_add", [](const Inputs& x) { return scatter_add(x[0], 0, grid(), x[1]); }},
      {"index_select", [](const Inputs& x) { return index_select(x[0], 1, list()); }},
      {"index_add", [](const Inputs& x) { return index_add(x[0], 0, list(), x[1], 2.0); }},
      {"index",
       [](const Inputs& x) {
         return index(x[0], {Tensor(), list(), list()});
       }},
      {"index_apart",
       [](const Inputs& x) {
         return index(x[0], {list(), Tensor(), grid().slice(1, 0, 3)});
       }},
      {"index_mask", [](const Inputs& x) { return index(x[0], {mask()}); }},
      {"masked_select", [](const Inputs& x) { return masked_select(x[0], mask()); }},
      {"slice_step", [](const Inputs& x) { return x[0].slice(1, 1, 6, 2); }},
      {"cat",
       [](const Inputs& x) {
         return cat({x[0], x[1]}, 1);
       }},
      {"stack",
       [](const Inputs& x) {
         return stack({x[0], x[1]}, 1);
       }},
      {"split", [](const Inputs& x) { return split(x[0], 2, 1)[1] * chunk(x[0], 3, 1)[0]; }},
      {"flip",
       [](const Inputs& x) {
         return flip(x[0], {0, 1});
       }},
      {"repeat",
       [](const Inputs& x) {
         return repeat(x[0], {2, 1, 3});
       }},
      {"reshape",
       [](const Inputs& x) {
         return x[0].t().reshape({2, 3});
       }},
      {"permute",
       [](const Inputs& x) {
         return x[0].permute({2, 0, 1});
       }},
      {"expand",
       [](const Inputs& x) {
         return x[0].expand({2, 2, 3});
       }},
      {"tril", [](const Inputs& x) { return tril(x[0], 1); }},
      {"triu", [](const Inputs& x) { return triu(x[0], -1); }},
  };
  return cases;
}

void expect_near(const Tensor& given, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(given.defined()) << what;
  ASSERT_EQ(given.shape(), expected.shape()) << what;
  const V left = given.to_vector();
  const V right = expected.to_vector();
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_NEAR(left[i], right[i], kTolerance * std::max(1.0, std::abs(right[i])))
        << what << ", element " << i;
  }
}

void compare(const std::map<std::string, Call>& cases) {
  std::map<std::string, Tensor> stored;
  for (const auto& [name, tensor] : reference_file("tensor").tensors) stored[name] = tensor;
  for (const auto& [name, function] : cases) {
    Inputs inputs;
    while (stored.count(name + "/input" + std::to_string(inputs.size())) != 0) {
      inputs.push_back(
          stored[name + "/input" + std::to_string(inputs.size())].clone().requires_grad_());
    }
    ASSERT_FALSE(inputs.empty()) << name;
    const Tensor output = function(inputs);
    expect_near(output, stored[name + "/output"], name);
    const auto gradients = grad({output}, inputs, {stored[name + "/grad_output"]});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      expect_near(gradients[i], stored[name + "/grad" + std::to_string(i)],
                  name + ", gradient " + std::to_string(i));
    }
    if (name != "norm_of_zeros") gradcheck(function, inputs);
  }
}

TEST(Reference, ArithmeticGivesWhatPyTorchGives) {
  compare(arithmetic_cases());
}

TEST(Reference, ElementwiseFunctionsAndProductsGiveWhatPyTorchGives) {
  compare(elementwise_cases());
}

TEST(Reference, ReductionsGiveWhatPyTorchGives) {
  compare(reduction_cases());
}

TEST(Reference, MovementsGiveWhatPyTorchGives) {
  compare(movement_cases());
}

}  // namespace
}  // namespace hvd
