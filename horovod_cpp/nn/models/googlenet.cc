#include "horovod_cpp/nn/models/googlenet.h"

#include <string>

#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/init.h"

namespace hvd {
namespace models {
namespace {

// Channels that come out of each convolution of an Inception module.
struct Widths {
  std::int64_t one;                   // 1x1
  std::int64_t three_reduced, three;  // 1x1, 3x3
  std::int64_t five_reduced, five;    // 1x1, 3x3
  std::int64_t pooled;                // 1x1 after max pooling

  std::int64_t sum() const { return one + three + five + pooled; }
};

// Four branches side by side.
class Inception : public nn::Module {
 public:
  Inception(std::int64_t in, const Widths& widths) {
    branches_ = {
        register_module<nn::Module>("branch1", std::make_shared<BasicConv2d>(in, widths.one, 1)),
        register_module<nn::Module>("branch2",
                                    std::make_shared<nn::Sequential>(
                                        BasicConv2d(in, widths.three_reduced, 1),
                                        BasicConv2d(widths.three_reduced, widths.three, 3, 1, 1))),
        register_module<nn::Module>("branch3",
                                    std::make_shared<nn::Sequential>(
                                        BasicConv2d(in, widths.five_reduced, 1),
                                        BasicConv2d(widths.five_reduced, widths.five, 3, 1, 1))),
        register_module<nn::Module>(
            "branch4", std::make_shared<nn::Sequential>(nn::MaxPool2d(3, 1, 1, true),
                                                        BasicConv2d(in, widths.pooled, 1)))};
  }

  Tensor forward(const Tensor& input) override {
    std::vector<Tensor> parts;
    for (const auto& branch : branches_) parts.push_back((*branch)(input));
    return concat(parts, 1);
  }

 private:
  Chain branches_;
};

class AuxiliaryClassifier : public nn::Module {
 public:
  AuxiliaryClassifier(std::int64_t in, const GoogLeNetOptions& options) {
    conv_ = register_module("conv", BasicConv2d(in, 128, 1));
    fc1_ = register_module("fc1", nn::Linear(std::int64_t{128} * 4 * 4, 1024));
    fc2_ = register_module("fc2", nn::Linear(1024, options.num_classes));
    dropout_ = register_module("dropout", nn::Dropout(options.dropout_aux));
  }

  Tensor forward(const Tensor& input) override {
    const Tensor features = (*conv_)(adaptive_avg_pool2d(input, 4)).flatten(1);
    return (*fc2_)((*dropout_)(relu((*fc1_)(features))));
  }

 private:
  std::shared_ptr<BasicConv2d> conv_;
  std::shared_ptr<nn::Linear> fc1_, fc2_;
  std::shared_ptr<nn::Dropout> dropout_;
};

}  // namespace

GoogLeNet::GoogLeNet(const GoogLeNetOptions& options) : transform_input_(options.transform_input) {
  const auto add = [this](Chain& chain, const char* name, auto module) {
    chain.push_back(register_module(name, std::move(module)));
  };
  std::int64_t channels = 192;
  const auto inception = [&](Chain& chain, const char* name, const Widths& widths) {
    add(chain, name, Inception(channels, widths));
    channels = widths.sum();
  };
  {
    const nn::SkipInit skip;  // initialise_truncated() below knows better
    add(to_aux1_, "conv1", BasicConv2d(3, 64, 7, 2, 3));
    add(to_aux1_, "maxpool1", nn::MaxPool2d(3, 2, 0, true));
    add(to_aux1_, "conv2", BasicConv2d(64, 64, 1));
    add(to_aux1_, "conv3", BasicConv2d(64, 192, 3, 1, 1));
    add(to_aux1_, "maxpool2", nn::MaxPool2d(3, 2, 0, true));
    inception(to_aux1_, "inception3a", {64, 96, 128, 16, 32, 32});
    inception(to_aux1_, "inception3b", {128, 128, 192, 32, 96, 64});
    add(to_aux1_, "maxpool3", nn::MaxPool2d(3, 2, 0, true));
    inception(to_aux1_, "inception4a", {192, 96, 208, 16, 48, 64});
    inception(to_aux2_, "inception4b", {160, 112, 224, 24, 64, 64});
    inception(to_aux2_, "inception4c", {128, 128, 256, 24, 64, 64});
    inception(to_aux2_, "inception4d", {112, 144, 288, 32, 64, 64});
    inception(to_end_, "inception4e", {256, 160, 320, 32, 128, 128});
    add(to_end_, "maxpool4", nn::MaxPool2d(2, 2, 0, true));
    inception(to_end_, "inception5a", {256, 160, 320, 32, 128, 128});
    inception(to_end_, "inception5b", {384, 192, 384, 48, 128, 128});
    if (options.aux_logits) {
      aux1 =
          register_module<nn::Module>("aux1", std::make_shared<AuxiliaryClassifier>(512, options));
      aux2 =
          register_module<nn::Module>("aux2", std::make_shared<AuxiliaryClassifier>(528, options));
    }
    avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d(1));
    dropout = register_module("dropout", nn::Dropout(options.dropout));
    fc = register_module("fc", nn::Linear(channels, options.num_classes));
  }
  if (options.init_weights) initialise_truncated(*this, 0.01);
}

GoogLeNetOutputs GoogLeNet::compute(const Tensor& input, bool with_aux) {
  GoogLeNetOutputs result;
  const bool aux = with_aux && is_training() && aux1 != nullptr;
  const Tensor first = run_chain(to_aux1_, transform_input_ ? to_tensorflow_range(input) : input);
  if (aux) result.aux_logits1 = (*aux1)(first);
  const Tensor second = run_chain(to_aux2_, first);
  if (aux) result.aux_logits2 = (*aux2)(second);
  const Tensor last = (*avgpool)(run_chain(to_end_, second)).flatten(1);
  result.logits = (*fc)((*dropout)(last));
  return result;
}

Tensor GoogLeNet::forward(const Tensor& input) {
  return compute(input, false).logits;
}

GoogLeNetOutputs GoogLeNet::outputs(const Tensor& input) {
  GoogLeNetOutputs result;
  result.logits = call(input, [&](const Tensor& given) {
    result = compute(given, true);
    return result.logits;
  });
  return result;
}

std::shared_ptr<GoogLeNet> googlenet(const GoogLeNetOptions& options) {
  return std::make_shared<GoogLeNet>(options);
}

}  // namespace models
}  // namespace hvd
