#include "horovod_cpp/nn/models/models.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>

#include "bindings/native/nn/nn.h"

namespace hvd::python {
namespace {

// The layer that transfer learning exchanges.
template <typename Model>
void def_fc(LayerClass<Model>& cls) {
  cls.def_property(
      "fc", [](const Model& model) { return model.fc; },
      [](Model& model, const std::shared_ptr<nn::Linear>& layer) {
        assign_module(model, "fc", layer);
        model.fc = layer;
      },
      "The Linear at the end; another one may be assigned.");
}

// What all models have in common.
constexpr Arg kNumClasses{"num_classes", "how many scores an image gets."};
constexpr Arg kInitWeights{
    "init_weights", "without, weights are left uninitialised, for values from a checkpoint."};
constexpr Arg kDropout{"dropout", "probability in the classifier."};
constexpr Arg kLastDropout{"dropout", "probability before the last layer."};
constexpr Arg kTransformInput{
    "transform_input", "the input is normalised as ImageNet's, the weights come from TensorFlow."};
constexpr Returns kModel{
    "The model, in training mode. Calls raise InvalidArgumentError on images that are too small."};

// Defines the function that makes a model. `Given` are the fields of Options, which `extra` name,
// between the two that all models have.
template <typename Options, typename... Given>
void define_model(py::module_& m, const char* name, auto make, const char* what,
                  const auto&... extra) {
  define(
      m, name,
      [make](Integer num_classes, const Given&... given, Flag<"init_weights"> init_weights) {
        return make(Options{num_classes, given..., init_weights});
      },
      what, py::kw_only(), kNumClasses = 1000, extra..., kInitWeights = true, kModel);
}

void bind_alexnet(py::module_& m) {
  using models::AlexNet;
  LayerClass<AlexNet>(m, "AlexNet", "What alexnet() makes.")
      .def_readonly("features", &AlexNet::features, "The convolutions, a Sequential.")
      .def_readonly("avgpool", &AlexNet::avgpool, "AdaptiveAvgPool2d.")
      .def_readonly("classifier", &AlexNet::classifier, "The linear layers, a Sequential.");
  define_model<models::AlexNetOptions, Number>(
      m, "alexnet", &models::alexnet, "AlexNet for images [n, 3, h, w] from 63x63 (ImageNet: 224).",
      kDropout = 0.5);
}

void def_vgg(py::module_& m, const char* name, const models::VGGVariant& make) {
  define_model<models::VGGOptions, Number, Flag<"cifar_head">>(
      m, name, make, "VGG for images [n, 3, h, w] from 32x32 (ImageNet: 224); _bn: with BatchNorm.",
      kDropout = 0.5,
      Arg("cifar_head",
          "one Linear(512, num_classes) in the place of the classifier of three layers, as is\n"
          "        usual for 32x32 images.") = false);
}

void bind_vgg(py::module_& m) {
  using models::VGG;
  LayerClass<VGG>(m, "VGG", "What vgg11(), vgg11_bn(), ... make.")
      .def_readonly("features", &VGG::features, "The convolutions, a Sequential.")
      .def_readonly("avgpool", &VGG::avgpool, "AdaptiveAvgPool2d.")
      .def_readonly("classifier", &VGG::classifier, "A Sequential; with cifar_head a Linear.");
  def_vgg(m, "vgg11", models::vgg11);
  def_vgg(m, "vgg11_bn", models::vgg11_bn);
  def_vgg(m, "vgg13", models::vgg13);
  def_vgg(m, "vgg13_bn", models::vgg13_bn);
  def_vgg(m, "vgg16", models::vgg16);
  def_vgg(m, "vgg16_bn", models::vgg16_bn);
  def_vgg(m, "vgg19", models::vgg19);
  def_vgg(m, "vgg19_bn", models::vgg19_bn);
}

void def_resnet(py::module_& m, const char* name, const models::ResNetVariant& make) {
  define_model<models::ResNetOptions, Flag<"cifar_stem">, Flag<"zero_init_residual">>(
      m, name, make, "ResNet for images [n, 3, h, w] of any size (ImageNet: 224).",
      Arg("cifar_stem",
          "the usual start for 32x32 images: a 3x3 convolution of stride 1, no max pooling.") =
          false,
      Arg("zero_init_residual", "the last BatchNorm of each block starts at 0.") = false);
}

void bind_resnet(py::module_& m) {
  using models::ResNet;
  LayerClass<ResNet> cls(m, "ResNet", "What resnet18(), resnet34() and resnet50() make.");
  cls.def_readonly("conv1", &ResNet::conv1, "The first convolution.")
      .def_readonly("bn1", &ResNet::bn1, "Its BatchNorm.")
      .def_readonly("maxpool", &ResNet::maxpool, "MaxPool2d; with cifar_stem Identity.")
      .def_readonly("avgpool", &ResNet::avgpool, "AdaptiveAvgPool2d.");
  def_fc(cls);
  for (std::size_t i = 0; i < 4; ++i) {
    cls.def_property_readonly(("layer" + std::to_string(i + 1)).c_str(),
                              [i](const ResNet& model) { return model.layers[i]; },
                              "Blocks of one width, a Sequential.");
  }
  def_resnet(m, "resnet18", models::resnet18);
  def_resnet(m, "resnet34", models::resnet34);
  def_resnet(m, "resnet50", models::resnet50);
}

// Calls the model: a tuple of the logits and `members` if these are defined, as in training with
// auxiliary classifiers; else the logits alone.
template <typename Returned, typename Model, typename Outputs, typename... Members>
void def_outputs(LayerClass<Model>& cls, const py::object& tuple, const char* doc,
                 Tensor Outputs::*logits, Members... members) {
  for (const char* name : {"__call__", "forward"}) {
    cls.def(
        name,
        [=](Model& self, const Tensor& input) -> Returned {
          const Outputs result = without_gil([&] { return self.outputs(input); });
          if (!((result.*members).defined() && ...)) return py::cast(result.*logits);
          return tuple(result.*logits, result.*members...);
        },
        py::arg("input"), doc);
  }
}

// A namedtuple type of m.
py::object tuple_type(py::module_& m, const char* name, const char* fields, const char* doc) {
  py::object type = py::module_::import("collections").attr("namedtuple")(name, fields);
  type.attr("__module__") = "horovod_cpp.models";
  type.attr("__doc__") = doc;
  m.attr(name) = type;
  return type;
}

void bind_googlenet(py::module_& m) {
  using models::GoogLeNet;
  const py::object outputs = tuple_type(
      m, "GoogLeNetOutputs", "logits aux_logits2 aux_logits1",
      "Scores [n, num_classes] of GoogLeNet in training: the main ones, and those of the "
      "later and of the earlier auxiliary classifier.");
  LayerClass<GoogLeNet> cls(m, "GoogLeNet", "What googlenet() makes.");
  def_outputs<Typed<"Tensor | GoogLeNetOutputs">>(
      cls, outputs,
      "Scores [n, num_classes] of ``input`` [n, 3, h, w]; GoogLeNetOutputs in training with "
      "auxiliary classifiers. InvalidArgumentError on other shapes.",
      &models::GoogLeNetOutputs::logits, &models::GoogLeNetOutputs::aux_logits2,
      &models::GoogLeNetOutputs::aux_logits1);
  def_fc(cls);
  define_model<models::GoogLeNetOptions, Flag<"aux_logits">, Flag<"transform_input">, Number,
               Number>(
      m, "googlenet", &models::googlenet, "GoogLeNet for images [n, 3, h, w] (ImageNet: 224).",
      Arg("aux_logits", "with the two auxiliary classifiers, which run in training only.") = true,
      kTransformInput = false, kLastDropout = 0.2,
      Arg("dropout_aux", "probability in the auxiliary classifiers.") = 0.7);
}

void bind_inception(py::module_& m) {
  using models::Inception3;
  const py::object outputs = tuple_type(
      m, "InceptionOutputs", "logits aux_logits",
      "Scores [n, num_classes] of Inception3 in training: the main and the auxiliary ones.");
  LayerClass<Inception3> cls(m, "Inception3", "What inception_v3() makes.");
  def_outputs<Typed<"Tensor | InceptionOutputs">>(
      cls, outputs,
      "Scores [n, num_classes] of ``input`` [n, 3, h, w]; InceptionOutputs in training with an "
      "auxiliary classifier. InvalidArgumentError on other shapes.",
      &models::InceptionOutputs::logits, &models::InceptionOutputs::aux_logits);
  def_fc(cls);
  define_model<models::Inception3Options, Flag<"aux_logits">, Flag<"transform_input">, Number>(
      m, "inception_v3", &models::inception_v3,
      "Inception v3 for images [n, 3, h, w] from 75x75 (ImageNet: 299).",
      Arg("aux_logits",
          "with the auxiliary classifier, which runs in training only and needs 299x299.") = true,
      kTransformInput = false, kLastDropout = 0.5);
}

}  // namespace

void bind_models(py::module_& m) {
  bind_alexnet(m);
  bind_vgg(m);
  bind_resnet(m);
  bind_googlenet(m);
  bind_inception(m);
}

}  // namespace hvd::python
