#pragma once

#include <cstdint>
#include <memory>

#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/pooling.h"
#include "horovod_cpp/nn/models/basic_conv.h"

// Szegedy, Vanhoucke, Ioffe, Shlens, Wojna: "Rethinking the Inception architecture for computer
// vision", CVPR 2016. Parameter names, layout and initialisation are torchvision's.
namespace hvd {
namespace models {

struct Inception3Options {
  std::int64_t num_classes = 1000;
  bool aux_logits = true;        // one more classifier along the way, for training
  bool transform_input = false;  // see to_tensorflow_range() of basic_conv.h
  double dropout = 0.5;
  // Without, weights are left uninitialised: for values that come from a checkpoint.
  bool init_weights = true;
};

struct InceptionOutputs {
  Tensor logits;
  Tensor aux_logits;  // undefined in evaluation and without aux_logits
};

// Images [n, 3, h, w] -> scores [n, num_classes]; h and w at least 75 (299 for ImageNet), and at
// least 299 where the auxiliary classifier runs.
class Inception3 : public nn::Module {
 public:
  explicit Inception3(const Inception3Options& options);
  // The logits alone; the auxiliary classifier does not run.
  Tensor forward(const Tensor& input) override;
  // Between the hooks, as operator(). The usual loss adds that of the auxiliary one times 0.4.
  InceptionOutputs outputs(const Tensor& input);

  std::shared_ptr<nn::Module> aux;  // "AuxLogits"; null without aux_logits
  std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool;
  std::shared_ptr<nn::Dropout> dropout;
  std::shared_ptr<nn::Linear> fc;

 private:
  InceptionOutputs compute(const Tensor& input, bool with_aux);

  bool transform_input_;
  Chain to_aux_, to_end_;
};

std::shared_ptr<Inception3> inception_v3(const Inception3Options& options = {});

}  // namespace models
}  // namespace hvd
