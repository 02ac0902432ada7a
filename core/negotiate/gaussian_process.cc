#include "core/negotiate/gaussian_process.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace hvd {
namespace {

constexpr std::array<double, 4> kLengths = {0.15, 0.3, 0.6, 1.2};
constexpr std::array<double, 4> kSignals = {0.5, 1, 2, 4};  // variance, of standardised values
constexpr double kLeastNoise = 1e-2;  // standardised; keeps the matrix definite

using Point = GaussianProcess::Point;

struct Kernel {
  Point length{};
  double signal = 1;

  double operator()(const Point& a, const Point& b) const {
    const double x = (a[0] - b[0]) / length[0];
    const double y = (a[1] - b[1]) / length[1];
    return signal * std::exp(-(x * x + y * y) / 2);
  }
};

Eigen::MatrixXd covariance(const Kernel& kernel, std::span<const Point> points, double noise) {
  const auto n = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixXd matrix(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      matrix(i, j) =
          kernel(points[static_cast<std::size_t>(i)], points[static_cast<std::size_t>(j)]);
    }
  }
  matrix.diagonal().array() += noise * noise;
  return matrix;
}

// The logarithm of the probability of the values, up to a constant.
double log_likelihood(const Eigen::LLT<Eigen::MatrixXd>& llt, const Eigen::VectorXd& values) {
  const Eigen::VectorXd half = llt.matrixL().solve(values);
  return -half.squaredNorm() / 2 - llt.matrixLLT().diagonal().array().log().sum();
}

}  // namespace

struct GaussianProcess::Fit {
  std::vector<Point> points;
  double mean = 0;
  double scale = 1;
  Kernel kernel;
  Eigen::LLT<Eigen::MatrixXd> llt;
  Eigen::VectorXd weights;
};

GaussianProcess::GaussianProcess(std::span<const Point> points, std::span<const double> values,
                                 double noise) {
  auto fit = std::make_unique<Fit>();
  fit->points.assign(points.begin(), points.end());
  const Eigen::Map<const Eigen::VectorXd> raw(values.data(),
                                              static_cast<Eigen::Index>(values.size()));
  fit->mean = raw.mean();
  const double deviation = std::sqrt((raw.array() - fit->mean).square().mean());
  fit->scale = deviation > 0 ? deviation : 1;
  const Eigen::VectorXd standard = (raw.array() - fit->mean) / fit->scale;
  double best = -std::numeric_limits<double>::infinity();
  for (const double first : kLengths) {
    for (const double second : kLengths) {
      for (const double signal : kSignals) {
        const Kernel kernel{{first, second}, signal};
        const Eigen::LLT<Eigen::MatrixXd> llt(
            covariance(kernel, points, std::max(noise / fit->scale, kLeastNoise)));
        const double likelihood = log_likelihood(llt, standard);
        if (likelihood <= best) continue;
        best = likelihood;
        fit->kernel = kernel;
        fit->llt = llt;
      }
    }
  }
  fit->weights = fit->llt.solve(standard);
  fit_ = std::move(fit);
}

GaussianProcess::~GaussianProcess() = default;

GaussianProcess::Prediction GaussianProcess::at(const Point& point) const {
  const auto n = static_cast<Eigen::Index>(fit_->points.size());
  Eigen::VectorXd cross(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    cross(i) = fit_->kernel(point, fit_->points[static_cast<std::size_t>(i)]);
  }
  const double mean = cross.dot(fit_->weights);
  const double explained = fit_->llt.matrixL().solve(cross).squaredNorm();
  const double variance = std::max(0.0, fit_->kernel.signal - explained);
  return {fit_->mean + fit_->scale * mean, fit_->scale * std::sqrt(variance)};
}

double expected_improvement(const GaussianProcess::Prediction& prediction, double best) {
  const double gain = prediction.mean - best;
  if (prediction.deviation <= 0) return std::max(0.0, gain);
  const double z = gain / prediction.deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double probability = std::erfc(-z / std::numbers::sqrt2) / 2;
  return gain * probability + prediction.deviation * density;
}

}  // namespace hvd
