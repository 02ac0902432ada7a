#include "horovod_cpp/nn/init.h"

#include <cmath>
#include <string>
#include <vector>

#include <Eigen/QR>

#include "core/base/status.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/tensor/shapes.h"

namespace hvd::nn::init {
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
    throw InvalidArgumentError("a tensor of shape ", weight.shape(),
                               " has no fans: expected at least 2 axes");
  }
  const Shape& shape = weight.shape();
  const std::int64_t kernel = numel_of(Shape(shape.begin() + 2, shape.end()));
  return {shape[1] * kernel, shape[0] * kernel};
}

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  if (nonlinearity == Nonlinearity::kTanh) return 5.0 / 3.0;
  if (nonlinearity == Nonlinearity::kReLU) return std::sqrt(2.0);
  if (nonlinearity == Nonlinearity::kLeakyReLU) return std::sqrt(2.0 / (1.0 + slope * slope));
  return nonlinearity == Nonlinearity::kSELU ? 0.75 : 1.0;
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
    throw InvalidArgumentError("uniform_: the range [", low, ", ", high, ") is empty");
  }
  hvd::uniform_(tensor, low, high, generator);
}

void normal_(const Tensor& tensor, double mean, double std, Generator& generator) {
  if (!(std >= 0)) {
    throw InvalidArgumentError("normal_: the deviation ", std, " is negative");
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

namespace {

void copy_in(const Tensor& tensor, const std::vector<double>& values) {
  const NoGradGuard no_grad;
  Tensor target = tensor;
  target.copy_(Tensor::from(values, tensor.shape()));
}

double normal_cdf(double x) {
  return std::erfc(-x / std::sqrt(2.0)) / 2;
}

// A standard normal number within [low, high] by rejection: of normal numbers where enough of them
// lie there, else of uniform ones (Robert: "Simulation of truncated normal variables", 1995).
class Truncated {
 public:
  Truncated(double low, double high)
      : low_(low), high_(high), by_normal_(normal_cdf(high) - normal_cdf(low) > 0.25) {
    nearest_ = low > 0 ? low : high < 0 ? high : 0.0;
    // Ten deviations further out there is nothing to find.
    reach_low_ = std::max(low, nearest_ - 10);
    reach_high_ = std::min(high, nearest_ + 10);
  }

  double draw(Generator& generator) const {
    for (;;) {
      if (by_normal_) {
        const double x = generator.normal();
        if (x >= low_ && x <= high_) return x;
        continue;
      }
      const double x = reach_low_ + (reach_high_ - reach_low_) * generator.uniform();
      if (generator.uniform() <= std::exp((nearest_ * nearest_ - x * x) / 2)) return x;
    }
  }

 private:
  double low_, high_;
  bool by_normal_;
  double nearest_ = 0;  // the most likely number
  double reach_low_ = 0, reach_high_ = 0;
};

}  // namespace

void trunc_normal_(const Tensor& tensor, double mean, double std, double low, double high,
                   Generator& generator) {
  shapes::require_floating(tensor, "trunc_normal_");
  if (!(std > 0 && low < high)) {
    throw InvalidArgumentError("trunc_normal_: std ", std, ", range [", low, ", ", high, "]");
  }
  const Truncated distribution((low - mean) / std, (high - mean) / std);
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  for (double& value : values) {
    value = std::clamp(mean + std * distribution.draw(generator), low, high);
  }
  copy_in(tensor, values);
}

void orthogonal_(const Tensor& weight, double gain, Generator& generator) {
  shapes::require_floating(weight, "orthogonal_");
  if (weight.dim() < 2) {
    throw InvalidArgumentError("orthogonal_: a tensor of shape ", weight.shape(),
                               ": expected at least 2 axes");
  }
  if (weight.numel() == 0) return;
  const auto rows = static_cast<Eigen::Index>(weight.size(0));
  const auto columns = static_cast<Eigen::Index>(weight.numel()) / rows;
  Eigen::MatrixXd draws(std::max(rows, columns), std::min(rows, columns));
  for (Eigen::Index i = 0; i < draws.size(); ++i) draws.data()[i] = generator.normal();
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(draws);
  Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(draws.rows(), draws.cols());
  // Without the signs of R's diagonal the matrices would not be uniformly distributed.
  for (Eigen::Index i = 0; i < q.cols(); ++i) {
    if (qr.matrixQR()(i, i) < 0) q.col(i) *= -1;
  }
  std::vector<double> values;
  for (Eigen::Index r = 0; r < rows; ++r) {
    for (Eigen::Index c = 0; c < columns; ++c) {
      values.push_back(gain * (rows >= columns ? q(r, c) : q(c, r)));
    }
  }
  copy_in(weight, values);
}

}  // namespace hvd::nn::init
