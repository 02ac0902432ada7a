#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/nn/module.h"
#include "test/horovod_cpp/reference_file.h"

namespace hvd {

// What PyTorch computed for one case of test/support/reference/nn.py, and the comparison with what
// is computed here. Everything is float64; tolerance 1e-9 absolute and relative.
class ReferenceCase {
 public:
  explicit ReferenceCase(std::string name) : name_(std::move(name)) {
    for (const auto& [key, tensor] : reference_file("nn").tensors) {
      if (key.starts_with(name_ + "/")) stored_.emplace(key.substr(name_.size() + 1), tensor);
    }
    EXPECT_FALSE(stored_.empty()) << name_;
  }

  // A copy; the same Tensor on every call. Floating inputs require grad.
  Tensor operator()(const std::string& what) {
    auto [it, fresh] = given_.try_emplace(what);
    if (fresh) {
      it->second = stored_.at(what).clone();
      if (stored_.contains("grad_" + what)) it->second.requires_grad_();
    }
    return it->second;
  }

  // Gives the module the stored parameters, which are then compared too.
  void load_into(nn::Module& module) {
    module.to(DType::kF64);
    const NoGradGuard no_grad;
    for (auto [path, parameter] : module.named_parameters()) {
      parameter.copy_(stored_.at(path));
      given_[path] = parameter;
    }
  }

  // `results` by their stored names: compares them, runs backward() and compares all gradients.
  void check(const std::vector<std::pair<std::string, Tensor>>& results) {
    Tensor total = Tensor::scalar(0.0, DType::kF64);
    for (const auto& [what, result] : results) {
      expect_close(what, result);
      Tensor weights = Tensor::empty(result.shape(), DType::kF64);
      for (std::int64_t i = 0; i < weights.numel(); ++i) {
        weights.data<double>()[i] = std::cos(1.7 * static_cast<double>(i) + 0.3);
      }
      total = total + sum(result * weights);
    }
    total.backward();
    std::size_t compared = 0;
    for (const auto& [key, expected] : stored_) {
      if (!key.starts_with("grad_")) continue;
      const Tensor grad = given_.at(key.substr(5)).grad();
      ASSERT_TRUE(grad.defined()) << name_ << " " << key;
      expect_close(key, grad);
      ++compared;
    }
    EXPECT_GT(compared, 0u) << name_;
  }

  void expect_close(const std::string& what, const Tensor& given) const {
    const Tensor& expected = stored_.at(what);
    ASSERT_EQ(given.shape(), expected.shape()) << name_ << " " << what;
    const std::vector<double> a = given.to_vector();
    const std::vector<double> b = expected.to_vector();
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], 1e-9 * std::max(1.0, std::abs(b[i])))
          << name_ << " " << what << " element " << i;
    }
  }

 private:
  std::string name_;
  std::map<std::string, Tensor> stored_;
  std::map<std::string, Tensor> given_;
};

}  // namespace hvd
