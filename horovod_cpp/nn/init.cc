#include "horovod_cpp/nn/init.h"

#include <cmath>
#include <string>

#include "core/base/status.h"
#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/nn/skip_init.h"

namespace hvd {
namespace nn {
namespace init {
namespace {

double fan_of(const Tensor& weight, FanMode mode) {
  const Fans fans = fans_of(weight);
  return static_cast<double>(mode == FanMode::kFanIn ? fans.in : fans.out);
}

double xavier_deviation(const Tensor& weight, double gain) {
  const Fans fans = fans_of(weight);
  return gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

double kaiming_deviation(const Tensor& weight, double a, FanMode mode, Nonlinearity nonlinearity) {
  return calculate_gain(nonlinearity, a) / std::sqrt(fan_of(weight, mode));
}

// A uniform distribution within +-bound has the deviation bound / sqrt(3).
void uniform_of_deviation(const Tensor& weight, double deviation, Generator& generator) {
  if (weight.numel() == 0) return;
  const double bound = std::sqrt(3.0) * deviation;
  init::uniform_(weight, -bound, bound, generator);
}

void normal_of_deviation(const Tensor& weight, double deviation, Generator& generator) {
  if (weight.numel() == 0) return;
  init::normal_(weight, 0.0, deviation, generator);
}

}  // namespace

Fans fans_of(const Tensor& weight) {
  if (weight.dim() < 2) {
    throw InvalidArgumentError("a tensor of shape " + to_string(weight.shape()) +
                               " has no fans: expected at least 2 axes");
  }
  const Shape& shape = weight.shape();
  const std::int64_t kernel = numel_of(Shape(shape.begin() + 2, shape.end()));
  return {shape[1] * kernel, shape[0] * kernel};
}

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::kTanh:
      return 5.0 / 3.0;
    case Nonlinearity::kReLU:
      return std::sqrt(2.0);
    case Nonlinearity::kLeakyReLU:
      return std::sqrt(2.0 / (1.0 + slope * slope));
    case Nonlinearity::kSELU:
      return 0.75;
    case Nonlinearity::kLinear:
    case Nonlinearity::kSigmoid:
      break;
  }
  return 1.0;
}

void constant_(const Tensor& tensor, double value) {
  const NoGradGuard no_grad;
  Tensor target = tensor;
  target.fill_(value);
}

void zeros_(const Tensor& tensor) {
  constant_(tensor, 0.0);
}

void ones_(const Tensor& tensor) {
  constant_(tensor, 1.0);
}

void uniform_(const Tensor& tensor, double low, double high, Generator& generator) {
  if (!(low <= high)) {
    throw InvalidArgumentError("uniform_: the range [" + std::to_string(low) + ", " +
                               std::to_string(high) + ") is empty");
  }
  hvd::uniform_(tensor, low, high, generator);
}

void normal_(const Tensor& tensor, double mean, double std, Generator& generator) {
  if (!(std >= 0)) {
    throw InvalidArgumentError("normal_: the deviation " + std::to_string(std) + " is negative");
  }
  hvd::normal_(tensor, mean, std, generator);
}

void xavier_uniform_(const Tensor& weight, double gain, Generator& generator) {
  uniform_of_deviation(weight, xavier_deviation(weight, gain), generator);
}

void xavier_normal_(const Tensor& weight, double gain, Generator& generator) {
  normal_of_deviation(weight, xavier_deviation(weight, gain), generator);
}

void kaiming_uniform_(const Tensor& weight, double a, FanMode mode, Nonlinearity nonlinearity,
                      Generator& generator) {
  uniform_of_deviation(weight, kaiming_deviation(weight, a, mode, nonlinearity), generator);
}

void kaiming_normal_(const Tensor& weight, double a, FanMode mode, Nonlinearity nonlinearity,
                     Generator& generator) {
  normal_of_deviation(weight, kaiming_deviation(weight, a, mode, nonlinearity), generator);
}

void layer_default_(const Tensor& weight, const Tensor& bias, Generator& generator) {
  if (SkipInit::active()) return;
  // With a = sqrt(5) the Kaiming bound is sqrt(6 / (1 + 5) / fan) = 1 / sqrt(fan).
  kaiming_uniform_(weight, std::sqrt(5.0), FanMode::kFanIn, Nonlinearity::kLeakyReLU, generator);
  if (!bias.defined()) return;
  const double bound = 1.0 / std::sqrt(fan_of(weight, FanMode::kFanIn));
  init::uniform_(bias, -bound, bound, generator);
}

}  // namespace init
}  // namespace nn
}  // namespace hvd
