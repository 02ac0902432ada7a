
#include <gtest/gtest.h>

#include "core/base/status.h"
#include "horovod_cpp/nn/models/models.h"
#include "horovod_cpp/tensor/random.h"
#include "test/horovod_cpp/nn/models/model_reference.h"
#include "test/support/message_of.h"

// AlexNet, GoogLeNet and Inception v3.
namespace hvd {
namespace models {
namespace {

// In training, but its layers evaluate: auxiliary classifiers run, and nothing is random.
void train_alone(nn::Module& model) {
  model.train();
  for (const auto& child : model.children()) child->eval();
}

TEST(Zoo, HasThePublishedNamesAndNumbersOfParameters) {
  const auto expect = [](const char* name, const nn::Module& model, std::int64_t parameters) {
    EXPECT_EQ(count_parameters(model), parameters) << name;
    ModelReference(name).expect_state(model);
  };
  expect("alexnet", *alexnet({.init_weights = false}), 61100840);
  expect("googlenet", *googlenet({.init_weights = false}), 13004888);
  expect("googlenet_without_aux", *googlenet({.aux_logits = false, .init_weights = false}),
         6624904);
  expect("inception_v3", *inception_v3({.init_weights = false}), 27161264);
  expect("inception_v3_without_aux", *inception_v3({.aux_logits = false, .init_weights = false}),
         23834568);
}

TEST(AlexNet, ComputesWhatPyTorchDoes) {
  const NoGradGuard no_grad;
  const auto model = alexnet({.num_classes = 10, .init_weights = false});
  fill(*model);
  model->eval();
  ModelReference("alexnet").expect_close("output", (*model)(image(63)));
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { (*model)(image(62)); }),
            "AlexNet: 'features.12' (MaxPool2d): max_pool2d: input [1, 256, 2, 2], "
            "kernel_size [3, 3], stride [2, 2], padding [0, 0]: no window fits, or padding is over "
            "half of the kernel, or one of them is above 2^31 - 1");
}

TEST(GoogLeNet, ComputesWhatPyTorchDoesWithItsAuxiliaryClassifiers) {
  const auto model = googlenet({.num_classes = 10, .init_weights = false});
  fill(*model);
  train_alone(*model);
  const GoogLeNetOutputs outputs = model->outputs(image(64));
  const ModelReference reference("googlenet");
  reference.expect_close("output", outputs.logits);
  reference.expect_close("aux", concat({outputs.aux_logits2, outputs.aux_logits1}, 1));
  reference.expect_gradients(*model, {outputs.logits, outputs.aux_logits2, outputs.aux_logits1});
  EXPECT_TRUE(bitwise_equal((*model)(image(64)), outputs.logits));
}

TEST(GoogLeNet, TakesTinyImagesAndNamesTheLayerThatCannot) {
  const NoGradGuard no_grad;
  const auto model = googlenet({.num_classes = 10, .init_weights = false});
  fill(*model);
  model->eval();
  EXPECT_EQ((*model)(image(15)).shape(), (Shape{1, 10}));
  EXPECT_FALSE(model->outputs(image(32)).aux_logits1.defined());
  EXPECT_EQ(message_of<InvalidArgumentError>([&] {
              (*model)(Tensor::zeros({1, 1, 32, 32}));
            }),
            "GoogLeNet: 'conv1.conv' (Conv2d): conv2d: input [1, 1, 32, 32], weight [64, 3, 7, 7]: "
            "channels differ");
}

TEST(Inception3, ComputesWhatPyTorchDoes) {
  const NoGradGuard no_grad;
  const auto model = inception_v3({.num_classes = 10, .aux_logits = true, .init_weights = false});
  fill(*model);
  model->eval();
  const InceptionOutputs outputs = model->outputs(image(75));
  ModelReference("inception_v3").expect_close("output", outputs.logits);
  EXPECT_FALSE(outputs.aux_logits.defined());
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { (*model)(image(74)); }),
            "Inception3: 'Mixed_7a.branch3x3_2.conv' (Conv2d): conv2d: input [1, 192, 2, 2], "
            "weight [320, 192, 3, 3]: the kernel does not fit");
  train_alone(*model);
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { model->outputs(image(75)); }),
            "Inception3: 'AuxLogits' (InceptionAux): avg_pool2d: input [1, 768, 3, 3], kernel_size "
            "[5, 5], stride [3, 3], padding [0, 0]: no window fits, or padding is over half of the "
            "kernel, or one of them is above 2^31 - 1");
}

TEST(Inception3, ComputesWhatPyTorchDoesWithItsAuxiliaryClassifier) {
  const auto model = inception_v3({.num_classes = 10, .init_weights = false});
  fill(*model);
  train_alone(*model);
  const InceptionOutputs outputs = model->outputs(image(299));
  const ModelReference reference("inception_v3_aux");
  reference.expect_close("output", outputs.logits);
  reference.expect_close("aux", outputs.aux_logits);
  reference.expect_gradients(*model, {outputs.logits, outputs.aux_logits});
}

TEST(Inception3, ChangesTheNormalisationOfItsInputOnRequest) {
  const NoGradGuard no_grad;
  const auto plain = googlenet({.num_classes = 10, .aux_logits = false, .init_weights = false});
  const auto changing = googlenet(
      {.num_classes = 10, .aux_logits = false, .transform_input = true, .init_weights = false});
  fill(*plain);
  fill(*changing);
  plain->eval();
  changing->eval();
  // Of a pixel (r, g, b) in [0, 1]: normalised as ImageNet's, and normalised with 0.5 and 0.5.
  const std::vector<double> pixel = {0.25, 0.5, 1.0};
  const std::vector<double> means = {0.485, 0.456, 0.406}, deviations = {0.229, 0.224, 0.225};
  Tensor imagenet = Tensor::empty({1, 3, 32, 32});
  Tensor tensorflow = Tensor::empty({1, 3, 32, 32});
  for (std::size_t c = 0; c < 3; ++c) {
    const auto at = static_cast<std::int64_t>(c);
    imagenet.select(1, at).fill_((pixel[c] - means[c]) / deviations[c]);
    tensorflow.select(1, at).fill_((pixel[c] - 0.5) / 0.5);
  }
  const std::vector<double> a = (*changing)(imagenet).to_vector();
  const std::vector<double> b = (*plain)(tensorflow).to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-4);
}

TEST(GoogLeNet, StartsWithATruncatedNormalDistribution) {
  manual_seed(5);
  const auto model = googlenet({.num_classes = 10});
  const NoGradGuard no_grad;
  for (const auto& [name, parameter] : model->named_parameters()) {
    if (parameter.dim() < 2) continue;
    EXPECT_NEAR(std::sqrt(mean(parameter * parameter).item()), 0.01, 0.002) << name;
  }
}

TEST(Inception3, StartsWithATruncatedNormalDistributionNarrowInTheAuxiliaryOne) {
  manual_seed(5);
  const auto model = inception_v3({.num_classes = 10});
  const NoGradGuard no_grad;
  for (const auto& [name, parameter] : model->named_parameters()) {
    if (parameter.dim() < 2) continue;
    const double expected = name == "AuxLogits.fc.weight" ? 0.001 : 0.1;
    EXPECT_NEAR(std::sqrt(mean(parameter * parameter).item()), expected, 0.1 * expected) << name;
  }
}

}  // namespace
}  // namespace models
}  // namespace hvd
