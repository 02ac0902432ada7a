#pragma once

#include <array>
#include <memory>
#include <span>

namespace hvd {

// Regression on noisy values at points of the unit square: a Gaussian process with a squared
// exponential kernel of two length scales. Values are standardised; length scales and signal
// variance are those of a small grid with the largest marginal likelihood (Rasmussen and Williams,
// Gaussian Processes for Machine Learning, 2006, algorithm 2.1 and equation 5.8).
class GaussianProcess {
 public:
  using Point = std::array<double, 2>;
  struct Prediction {
    double mean = 0;       // in the units of the values
    double deviation = 0;  // of the mean, noise left out
  };

  // `points` and `values` have one length, at least 1; `noise` is the standard deviation of what is
  // random in a value, in the units of the values, at least 0.
  GaussianProcess(std::span<const Point> points, std::span<const double> values, double noise);
  ~GaussianProcess();

  Prediction at(const Point& point) const;

 private:
  struct Fit;
  std::unique_ptr<const Fit> fit_;
};

// How much more than `best` one may expect at a place with this prediction (Jones, Schonlau and
// Welch, Efficient global optimization of expensive black-box functions, 1998, equation 15).
double expected_improvement(const GaussianProcess::Prediction& prediction, double best);

}  // namespace hvd
