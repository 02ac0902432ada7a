#pragma once

#include <cstdint>
#include <memory>

#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/pooling.h"
#include "horovod_cpp/nn/models/basic_conv.h"

// Szegedy and others: "Going deeper with convolutions", CVPR 2015, with BatchNorm. Parameter names,
// layout (3x3 kernels where the paper has 5x5 ones) and initialisation are torchvision's.
namespace hvd {
namespace models {

struct GoogLeNetOptions {
  std::int64_t num_classes = 1000;
  bool aux_logits = true;        // two more classifiers along the way, for training
  bool transform_input = false;  // see to_tensorflow_range() of basic_conv.h
  double dropout = 0.2;
  double dropout_aux = 0.7;
  // Without, weights are left uninitialised: for values that come from a checkpoint.
  bool init_weights = true;
};

struct GoogLeNetOutputs {
  Tensor logits;
  Tensor aux_logits2;  // of the later one; both undefined in evaluation and without aux_logits
  Tensor aux_logits1;
};

// Images [n, 3, h, w] -> scores [n, num_classes], of any size from 15 (224 for ImageNet).
class GoogLeNet : public nn::Module {
 public:
  explicit GoogLeNet(const GoogLeNetOptions& options);
  // The logits alone; the auxiliary classifiers do not run.
  Tensor forward(const Tensor& input) override;
  // Between the hooks, as operator(). The usual loss adds those of the auxiliary ones times 0.3.
  GoogLeNetOutputs outputs(const Tensor& input);

  std::shared_ptr<nn::Module> aux1;  // null without aux_logits
  std::shared_ptr<nn::Module> aux2;
  std::shared_ptr<nn::AdaptiveAvgPool2d> avgpool;
  std::shared_ptr<nn::Dropout> dropout;
  std::shared_ptr<nn::Linear> fc;

 private:
  GoogLeNetOutputs compute(const Tensor& input, bool with_aux);

  bool transform_input_;
  Chain to_aux1_, to_aux2_, to_end_;
};

std::shared_ptr<GoogLeNet> googlenet(const GoogLeNetOptions& options = {});

}  // namespace models
}  // namespace hvd
