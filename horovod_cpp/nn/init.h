#pragma once

#include <utility>

#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/tensor.h"

// Fill a tensor in place, outside the graph, as torch.nn.init does. What is random comes from
// `generator`. Wrong arguments throw InvalidArgumentError; then nothing is written.
namespace hvd::nn {
namespace init {

struct Fans {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

// Of a weight [out, in, kernel...]: extents times the kernel's size. Throws InvalidArgumentError
// when there are fewer than two axes.
Fans fans_of(const Tensor& weight);

// Which fan keeps its variance: the input's in forward, or the output's in backward.
enum class FanMode { kFanIn, kFanOut };
// What follows the layer: its recommended gain is 1, 1, 5/3, sqrt(2), sqrt(2 / (1 + slope^2)), 3/4.
enum class Nonlinearity { kLinear, kSigmoid, kTanh, kReLU, kLeakyReLU, kSELU };

// `slope` is the leaky ReLU's; others ignore it.
double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

void constant_(const Tensor& tensor, double value);
void zeros_(const Tensor& tensor);
void ones_(const Tensor& tensor);
// [low, high)
void uniform_(const Tensor& tensor, double low = 0.0, double high = 1.0,
              Generator& generator = default_generator());
void normal_(const Tensor& tensor, double mean = 0.0, double std = 1.0,
             Generator& generator = default_generator());

// Glorot, Bengio: "Understanding the difficulty of training deep feedforward neural networks",
// AISTATS 2010. Bound gain * sqrt(6 / (in + out)), deviation gain * sqrt(2 / (in + out)).
void xavier_uniform_(const Tensor& weight, double gain = 1.0,
                     Generator& generator = default_generator());
void xavier_normal_(const Tensor& weight, double gain = 1.0,
                    Generator& generator = default_generator());

// He, Zhang, Ren, Sun: "Delving deep into rectifiers", ICCV 2015. Bound gain * sqrt(3 / fan),
// deviation gain / sqrt(fan), with the gain of `nonlinearity` and slope `a`.
void kaiming_uniform_(const Tensor& weight, double a = 0.0, FanMode mode = FanMode::kFanIn,
                      Nonlinearity nonlinearity = Nonlinearity::kLeakyReLU,
                      Generator& generator = default_generator());
void kaiming_normal_(const Tensor& weight, double a = 0.0, FanMode mode = FanMode::kFanIn,
                     Nonlinearity nonlinearity = Nonlinearity::kLeakyReLU,
                     Generator& generator = default_generator());

// The normal distribution without what lies outside [low, high].
void trunc_normal_(const Tensor& tensor, double mean = 0.0, double std = 1.0, double low = -2.0,
                   double high = 2.0, Generator& generator = default_generator());

// Saxe, McClelland, Ganguli: "Exact solutions to the nonlinear dynamics of learning in deep linear
// neural networks", 2013. As a matrix [first axis, all others], its rows (or its columns if they
// are fewer) are orthogonal and of length `gain`. Throws InvalidArgumentError below two axes.
void orthogonal_(const Tensor& weight, double gain = 1.0,
                 Generator& generator = default_generator());

// PyTorch's default of Linear and convolutions: both uniform within 1 / sqrt(fan in of `weight`).
// An undefined bias is left alone. Does nothing while a SkipInit lives on this thread.
void layer_default_(const Tensor& weight, const Tensor& bias,
                    Generator& generator = default_generator());

}  // namespace init

// While one lives, the weights of Linear and of convolutions that this thread makes are left
// uninitialised (init::layer_default_ does nothing): for models whose values come from a checkpoint
// or from an initialisation of their own. Their memory is not touched.
class SkipInit {
 public:
  explicit SkipInit(bool skip = true) : before_(std::exchange(active_, active_ || skip)) {}
  ~SkipInit() { active_ = before_; }
  SkipInit(const SkipInit&) = delete;
  SkipInit& operator=(const SkipInit&) = delete;

  // Whether one lives on this thread.
  static bool active() { return active_; }

 private:
  static inline thread_local bool active_ = false;
  bool before_;
};

}  // namespace hvd::nn
