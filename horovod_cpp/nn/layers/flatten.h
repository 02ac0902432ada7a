#pragma once

#include <string>

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {

// Joins the axes from start_dim on into one: [n, c, h, w] -> [n, c * h * w] by default.
class Flatten : public Module {
 public:
  explicit Flatten(std::int64_t start_dim = 1) : start_dim_(start_dim) {}
  Tensor forward(const Tensor& input) override { return input.flatten(start_dim_); }
  std::string extra_repr() const override {
    return "start_dim=" + std::to_string(start_dim_) + ", end_dim=-1";
  }

 private:
  std::int64_t start_dim_;
};

}  // namespace nn
}  // namespace hvd
