#include "horovod_cpp/nn/models/models.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/basic.h"

namespace hvd::models {
namespace {

// Of RGB images of ImageNet, values in [0, 1].
constexpr std::array<double, 3> kMeans = {0.485, 0.456, 0.406};
constexpr std::array<double, 3> kDeviations = {0.229, 0.224, 0.225};

// relu(bn(conv(x))): a convolution without bias and a BatchNorm with an eps of 0.001.
class BasicConv2d : public nn::Module {
 public:
  BasicConv2d(std::int64_t in_channels, std::int64_t out_channels, IntPair kernel_size,
              IntPair stride = 1, ConvPadding padding = 0) {
    conv_ = register_module(
        "conv", nn::Conv2d(in_channels, out_channels, kernel_size, stride, padding, false));
    bn_ = register_module("bn", nn::BatchNorm2d(out_channels, 0.001));
  }
  Tensor forward(const Tensor& input) override { return relu((*bn_)((*conv_)(input))); }

 private:
  std::shared_ptr<nn::Conv2d> conv_;
  std::shared_ptr<nn::BatchNorm2d> bn_;
};

Tensor run_chain(const Chain& chain, const Tensor& input) {
  Tensor value = input;
  for (const auto& module : chain) value = (*module)(value);
  return value;
}

// Weights of all convolutions and linear layers: a normal distribution of deviation `std` without
// what lies outside [-2, 2]. Biases start as PyTorch's.
void initialise_truncated(const nn::Module& model, double std) {
  for_each_layer<nn::Conv2d>(
      model, [std](nn::Conv2d& layer) { nn::init::trunc_normal_(layer.weight, 0.0, std); });
  for_each_layer<nn::Linear>(model, [std](nn::Linear& layer) {
    nn::init::layer_default_(layer.weight, layer.bias);
    nn::init::trunc_normal_(layer.weight, 0.0, std);
  });
}

// From images normalised with ImageNet's means and deviations to images normalised with 0.5 and
// 0.5.
Tensor to_tensorflow_range(const Tensor& images) {
  if (images.dim() != 4 || images.size(1) != 3) {
    throw InvalidArgumentError("transform_input: images ", images.shape(),
                               ": expected [n, 3, h, w]");
  }
  std::vector<double> scales, shifts;
  for (std::size_t i = 0; i < 3; ++i) {
    scales.push_back(kDeviations[i] / 0.5);
    shifts.push_back((kMeans[i] - 0.5) / 0.5);
  }
  const Shape channels = {1, 3, 1, 1};
  return images * Tensor::from(scales, channels).to(images.dtype()) +
         Tensor::from(shifts, channels).to(images.dtype());
}

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
    const auto add = [this](const char* name, auto branch) {
      branches_.push_back(register_module(name, std::move(branch)));
    };
    add("branch1", BasicConv2d(in, widths.one, 1));
    add("branch2", nn::Sequential(BasicConv2d(in, widths.three_reduced, 1),
                                  BasicConv2d(widths.three_reduced, widths.three, 3, 1, 1)));
    add("branch3", nn::Sequential(BasicConv2d(in, widths.five_reduced, 1),
                                  BasicConv2d(widths.five_reduced, widths.five, 3, 1, 1)));
    add("branch4", nn::Sequential(nn::MaxPool2d(3, 1, 1, true), BasicConv2d(in, widths.pooled, 1)));
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

GoogLeNetOutputs GoogLeNet::outputs(const Tensor& input) {
  return nn::call_with_outputs(*this, input, &GoogLeNetOutputs::logits,
                               [this](const Tensor& given) { return compute(given, true); });
}

namespace {

struct Convolution {
  const char* name;
  std::int64_t channels;  // that come out
  IntPair kernel_size;
  IntPair padding = 0;
  std::int64_t stride = 1;
};

enum class Pooling { kNone, kMean, kMax };  // 3x3; kMax halves the image

Tensor pooled(Pooling pooling, const Tensor& input) {
  if (pooling == Pooling::kMean) {
    return avg_pool2d(input, {.kernel_size = 3, .stride = 1, .padding = 1});
  }
  if (pooling == Pooling::kMax) return max_pool2d(input, 3, 2);
  return input;
}

// Pooling, convolutions one after the other, then those of the fork side by side.
struct Branch {
  std::vector<Convolution> chain;
  Pooling pooling = Pooling::kNone;
  std::vector<Convolution> fork = {};
};

// Branches side by side, their outputs one after the other along the channels.
class InceptionBlock : public nn::Module {
 public:
  // `channels` go in; it becomes what comes out.
  InceptionBlock(std::int64_t& channels, const std::vector<Branch>& branches) {
    std::int64_t total = 0;
    for (const Branch& branch : branches) {
      std::int64_t width = channels;
      Parts parts = {branch.pooling, {}, {}};
      for (const Convolution& shape : branch.chain) {
        parts.chain.push_back(add(width, shape));
        width = shape.channels;
      }
      if (branch.fork.empty()) total += width;
      for (const Convolution& shape : branch.fork) {
        parts.fork.push_back(add(width, shape));
        total += shape.channels;
      }
      branches_.push_back(std::move(parts));
    }
    channels = total;
  }

  Tensor forward(const Tensor& input) override {
    std::vector<Tensor> outputs;
    for (const Parts& branch : branches_) {
      const Tensor value = run_chain(branch.chain, pooled(branch.pooling, input));
      if (branch.fork.empty()) outputs.push_back(value);
      for (const auto& conv : branch.fork) outputs.push_back((*conv)(value));
    }
    return concat(outputs, 1);
  }

 private:
  struct Parts {
    Pooling pooling;
    Chain chain;
    Chain fork;
  };

  std::shared_ptr<nn::Module> add(std::int64_t in_channels, const Convolution& shape) {
    return register_module(shape.name, BasicConv2d(in_channels, shape.channels, shape.kernel_size,
                                                   shape.stride, shape.padding));
  }

  std::vector<Parts> branches_;
};

class InceptionAux : public nn::Module {
 public:
  InceptionAux(std::int64_t in, std::int64_t num_classes) {
    conv0_ = register_module("conv0", BasicConv2d(in, 128, 1));
    conv1_ = register_module("conv1", BasicConv2d(128, 768, 5));
    fc = register_module("fc", nn::Linear(768, num_classes));
  }

  Tensor forward(const Tensor& input) override {
    const Tensor features =
        (*conv1_)((*conv0_)(avg_pool2d(input, {.kernel_size = 5, .stride = 3})));
    return (*fc)(adaptive_avg_pool2d(features, 1).flatten(1));
  }

  std::shared_ptr<nn::Linear> fc;

 private:
  std::shared_ptr<BasicConv2d> conv0_, conv1_;
};

const IntPair kRow = {1, 7}, kColumn = {7, 1};
const IntPair kRowPadding = {0, 3}, kColumnPadding = {3, 0};

// The blocks A to E: what torchvision calls InceptionA to InceptionE.
std::vector<Branch> block_a(std::int64_t pooled) {
  return {{{{"branch1x1", 64, 1}}},
          {{{"branch5x5_1", 48, 1}, {"branch5x5_2", 64, 5, 2}}},
          {{{"branch3x3dbl_1", 64, 1}, {"branch3x3dbl_2", 96, 3, 1}, {"branch3x3dbl_3", 96, 3, 1}}},
          {{{"branch_pool", pooled, 1}}, Pooling::kMean}};
}

std::vector<Branch> block_b() {
  return {
      {{{"branch3x3", 384, 3, 0, 2}}},
      {{{"branch3x3dbl_1", 64, 1}, {"branch3x3dbl_2", 96, 3, 1}, {"branch3x3dbl_3", 96, 3, 0, 2}}},
      {{}, Pooling::kMax}};
}

std::vector<Branch> block_c(std::int64_t inner) {
  return {{{{"branch1x1", 192, 1}}},
          {{{"branch7x7_1", inner, 1},
            {"branch7x7_2", inner, kRow, kRowPadding},
            {"branch7x7_3", 192, kColumn, kColumnPadding}}},
          {{{"branch7x7dbl_1", inner, 1},
            {"branch7x7dbl_2", inner, kColumn, kColumnPadding},
            {"branch7x7dbl_3", inner, kRow, kRowPadding},
            {"branch7x7dbl_4", inner, kColumn, kColumnPadding},
            {"branch7x7dbl_5", 192, kRow, kRowPadding}}},
          {{{"branch_pool", 192, 1}}, Pooling::kMean}};
}

std::vector<Branch> block_d() {
  return {{{{"branch3x3_1", 192, 1}, {"branch3x3_2", 320, 3, 0, 2}}},
          {{{"branch7x7x3_1", 192, 1},
            {"branch7x7x3_2", 192, kRow, kRowPadding},
            {"branch7x7x3_3", 192, kColumn, kColumnPadding},
            {"branch7x7x3_4", 192, 3, 0, 2}}},
          {{}, Pooling::kMax}};
}

std::vector<Branch> block_e() {
  const IntPair row = {1, 3}, column = {3, 1}, row_padding = {0, 1}, column_padding = {1, 0};
  return {
      {{{"branch1x1", 320, 1}}},
      {{{"branch3x3_1", 384, 1}},
       Pooling::kNone,
       {{"branch3x3_2a", 384, row, row_padding}, {"branch3x3_2b", 384, column, column_padding}}},
      {{{"branch3x3dbl_1", 448, 1}, {"branch3x3dbl_2", 384, 3, 1}},
       Pooling::kNone,
       {{"branch3x3dbl_3a", 384, row, row_padding},
        {"branch3x3dbl_3b", 384, column, column_padding}}},
      {{{"branch_pool", 192, 1}}, Pooling::kMean}};
}

}  // namespace

Inception3::Inception3(const Inception3Options& options)
    : transform_input_(options.transform_input) {
  const auto add = [this](Chain& chain, const char* name, auto module) {
    chain.push_back(register_module(name, std::move(module)));
  };
  std::int64_t channels = 192;
  const auto block = [&](Chain& chain, const char* name, const std::vector<Branch>& branches) {
    add(chain, name, InceptionBlock(channels, branches));
  };
  std::shared_ptr<InceptionAux> aux_head;
  {
    const nn::SkipInit skip;  // initialise_truncated() below knows better
    add(to_aux_, "Conv2d_1a_3x3", BasicConv2d(3, 32, 3, 2));
    add(to_aux_, "Conv2d_2a_3x3", BasicConv2d(32, 32, 3));
    add(to_aux_, "Conv2d_2b_3x3", BasicConv2d(32, 64, 3, 1, 1));
    add(to_aux_, "maxpool1", nn::MaxPool2d(3, 2));
    add(to_aux_, "Conv2d_3b_1x1", BasicConv2d(64, 80, 1));
    add(to_aux_, "Conv2d_4a_3x3", BasicConv2d(80, 192, 3));
    add(to_aux_, "maxpool2", nn::MaxPool2d(3, 2));
    block(to_aux_, "Mixed_5b", block_a(32));
    block(to_aux_, "Mixed_5c", block_a(64));
    block(to_aux_, "Mixed_5d", block_a(64));
    block(to_aux_, "Mixed_6a", block_b());
    block(to_aux_, "Mixed_6b", block_c(128));
    block(to_aux_, "Mixed_6c", block_c(160));
    block(to_aux_, "Mixed_6d", block_c(160));
    block(to_aux_, "Mixed_6e", block_c(192));
    if (options.aux_logits) {
      aux_head = std::make_shared<InceptionAux>(channels, options.num_classes);
      aux = register_module<nn::Module>("AuxLogits", aux_head);
    }
    block(to_end_, "Mixed_7a", block_d());
    block(to_end_, "Mixed_7b", block_e());
    block(to_end_, "Mixed_7c", block_e());
    avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d(1));
    dropout = register_module("dropout", nn::Dropout(options.dropout));
    fc = register_module("fc", nn::Linear(channels, options.num_classes));
  }
  if (!options.init_weights) return;
  initialise_truncated(*this, 0.1);
  if (aux_head != nullptr) nn::init::trunc_normal_(aux_head->fc->weight, 0.0, 0.001);
}

InceptionOutputs Inception3::compute(const Tensor& input, bool with_aux) {
  InceptionOutputs result;
  const Tensor middle = run_chain(to_aux_, transform_input_ ? to_tensorflow_range(input) : input);
  if (with_aux && is_training() && aux != nullptr) result.aux_logits = (*aux)(middle);
  const Tensor last = (*avgpool)(run_chain(to_end_, middle));
  result.logits = (*fc)((*dropout)(last).flatten(1));
  return result;
}

InceptionOutputs Inception3::outputs(const Tensor& input) {
  return nn::call_with_outputs(*this, input, &InceptionOutputs::logits,
                               [this](const Tensor& given) { return compute(given, true); });
}

}  // namespace hvd::models
