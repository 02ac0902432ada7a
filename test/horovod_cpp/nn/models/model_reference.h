#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/nn/module.h"
#include "test/horovod_cpp/reference_file.h"
#include "test/support/temporary_folder.h"

// What PyTorch computed for the models of test/support/reference/models.py, with weights that are
// not stored: they follow from their place in the state dict.
namespace hvd {

inline std::int64_t count_parameters(const nn::Module& model) {
  std::int64_t count = 0;
  for (const Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

// pattern() of models.py: a number in [-0.5, 0.5) with 24 bits.
inline float pattern(std::uint32_t seed, std::uint32_t index) {
  std::uint32_t h = index + seed * 0x9E3779B9u;
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  h ^= h >> 16;
  return static_cast<float>(h >> 8) * 0x1p-24f - 0.5f;
}

// tensor[i] = offset + scale * pattern(..., i), computed in double; another one for each place and
// each seed of the file.
inline void fill_with_pattern(const Tensor& tensor, std::uint32_t place, double offset,
                              double scale) {
  const std::string& file_seed = reference_file("models").metadata.at("seed");
  const auto seed = place + 1000 * static_cast<std::uint32_t>(std::stoul(file_seed));
  auto* values = tensor.data<float>();
  const auto count = static_cast<std::uint32_t>(tensor.numel());
  for (std::uint32_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(offset + scale * static_cast<double>(pattern(seed, i)));
  }
}

// fill() of models.py.
inline void fill(const nn::Module& model) {
  std::uint32_t place = 0;
  for (const auto& [name, tensor] : model.state_dict()) {
    const Shape& shape = tensor.shape();
    if (name.ends_with("num_batches_tracked")) {
      *tensor.data<std::int64_t>() = place;
    } else if (shape.size() > 1) {
      const std::int64_t fan_in = numel_of(Shape(shape.begin() + 1, shape.end()));
      fill_with_pattern(tensor, place, 0.0, std::sqrt(24.0 / static_cast<double>(fan_in)));
    } else if (name.ends_with("weight")) {
      fill_with_pattern(tensor, place, 1.0, 0.4);
    } else if (name.ends_with("running_var")) {
      fill_with_pattern(tensor, place, 1.0, 1.0);
    } else {
      fill_with_pattern(tensor, place, 0.0, 0.2);
    }
    ++place;
  }
}

inline Tensor image(std::int64_t extent) {
  const Tensor result = Tensor::empty({1, 3, extent, extent});
  fill_with_pattern(result, 999, 0.0, 2.0);
  return result;
}

// Names and shapes of the state dict, as "<model>/state" has them.
inline std::string state_text(const nn::Module& model) {
  std::string text;
  for (const auto& [name, tensor] : model.state_dict()) {
    text += (text.empty() ? "" : "\n") + name + " ";
    for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) {
      text += (axis == 0 ? "" : ",") + std::to_string(tensor.size(axis));
    }
  }
  return text;
}

class ModelReference {
 public:
  explicit ModelReference(std::string name) : name_(std::move(name)) {}

  void expect_state(const nn::Module& model) const {
    EXPECT_EQ(state_text(model), reference_file("models").metadata.at(name_ + "/state")) << name_;
  }

  // All elements within 1e-4 of the largest one: float32 here, float64 there.
  void expect_close(const std::string& what, const Tensor& given) const {
    const std::vector<double> expected = stored(what).to_vector();
    const std::vector<double> values = given.to_vector();
    ASSERT_EQ(values.size(), expected.size()) << name_ << "/" << what;
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[i], 1e-4 * largest) << name_ << "/" << what << " " << i;
    }
  }

  // Runs backward() and compares the lengths of all gradients, each within 1e-3 of itself.
  void expect_gradients(const nn::Module& model, const std::vector<Tensor>& outputs) const {
    Tensor total = Tensor::scalar(0.0);
    for (const Tensor& output : outputs) {
      std::vector<double> weights;
      for (int i = 0; i < 10; ++i) weights.push_back(std::cos(1.7 * i + 0.3));
      total = total + sum(output * Tensor::from(weights, {1, 10}).to(DType::kF32));
    }
    total.backward();
    const std::vector<double> expected = stored("grad_norms").to_vector();
    std::size_t place = 0;
    for (const auto& [path, parameter] : model.named_parameters()) {
      ASSERT_LT(place, expected.size());
      ASSERT_TRUE(parameter.grad().defined()) << name_ << " " << path;
      const NoGradGuard no_grad;
      const double norm = std::sqrt(sum(parameter.grad() * parameter.grad()).item());
      EXPECT_NEAR(norm, expected[place], 1e-3 * expected[place]) << name_ << " " << path;
      ++place;
    }
    EXPECT_EQ(place, expected.size());
  }

 private:
  Tensor stored(const std::string& what) const {
    return reference_tensor("models", name_ + "/" + what);
  }

  std::string name_;
};

}  // namespace hvd
