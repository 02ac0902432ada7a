#include "horovod_cpp/optim/rules/compiled.h"

namespace hvd {
namespace optim {
namespace HVD_ISA_NAME {
namespace {

// Sums in a fixed order, whatever the width of the registers.
constexpr std::int64_t kLanes = 16;

double total(const double* lanes) {
  double sum = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

template <typename T>
T direction(const LambRule<T>& rule, T param, T mean, T square) {
  return mean / rule.correction / (root(square) / rule.root_correction + rule.eps) +
         rule.weight_decay * param;
}

template <typename T>
struct Arrays {
  const T* param;
  const T* grad;
  T* mean;
  T* square;
};

// Moves `count` elements of mean and square; adds the squares of param and r to the lanes.
template <typename T>
void move(const LambRule<T>& rule, const Arrays<T>& at, std::int64_t first, std::int64_t count,
          double* params, double* directions) {
  const T* __restrict param = at.param + first;
  const T* __restrict grad = at.grad + first;
  T* __restrict mean = at.mean + first;
  T* __restrict square = at.square + first;
  for (std::int64_t i = 0; i < count; ++i) {
    const T d = rule.sign * grad[i];
    const T m = rule.beta1 * mean[i] + rule.take1 * d;
    const T s = rule.beta2 * square[i] + rule.take2 * (d * d);
    mean[i] = m;
    square[i] = s;
    const auto r = static_cast<double>(direction(rule, param[i], m, s));
    const auto p = static_cast<double>(param[i]);
    params[i] += p * p;
    directions[i] += r * r;
  }
}

// Moves mean and square, and returns |param| / |r|.
template <typename T>
double trust_ratio(const LambRule<T>& rule, const Arrays<T>& arrays, std::int64_t n) {
  double params[kLanes] = {};
  double directions[kLanes] = {};
  std::int64_t first = 0;
  for (; first + kLanes <= n; first += kLanes) {
    move(rule, arrays, first, kLanes, params, directions);
  }
  move(rule, arrays, first, n - first, params, directions);
  const double of_params = total(params);
  const double of_directions = total(directions);
  if (of_params == 0 || of_directions == 0) return 1;
  return root(of_params) / root(of_directions);
}

template <typename T>
void update(const LambRule<T>& rule, std::int64_t n, T* __restrict param, const T* __restrict grad,
            T* __restrict mean, T* __restrict square) {
  const double ratio = trust_ratio(rule, Arrays<T>{param, grad, mean, square}, n);
  const T step_size = static_cast<T>(static_cast<double>(rule.lr) * ratio);
  for (std::int64_t i = 0; i < n; ++i) {
    param[i] -= step_size * direction(rule, param[i], mean[i], square[i]);
  }
}

}  // namespace

template <typename T>
void set_lamb(Updates<T>& updates) {
  updates.lamb = update<T>;
}

template void set_lamb(Updates<float>& updates);
template void set_lamb(Updates<double>& updates);

}  // namespace HVD_ISA_NAME
}  // namespace optim
}  // namespace hvd
