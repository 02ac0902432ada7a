#include "horovod_cpp/autograd/functions/convolution.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "bindings/native/nn/nn.h"
#include "bindings/native/numbers.h"
#include "bindings/native/tensor/docs.h"
#include "bindings/native/tensor/two_integers.h"
#include "horovod_cpp/nn/layers/layers.h"

namespace hvd::python {
namespace {

using Int = Integer;
// What Python passes for IntPair and ConvPadding: 3, (3, 5), "same".
using Pair = std::variant<Int, TwoIntegers>;
using Padding1d = std::variant<Int, std::string>;
using Padding2d = std::variant<Int, TwoIntegers, std::string>;

struct ToPair {
  IntPair operator()(Int both) const { return both.value; }
  IntPair operator()(const TwoIntegers& pair) const { return {pair.first, pair.second}; }
};
struct ToPadding {
  ConvPadding operator()(const std::string& word) const { return std::string_view(word); }
  template <typename Number>
  ConvPadding operator()(const Number& number) const {
    return ToPair()(number);
  }
};

IntPair pair(const Pair& given) {
  return std::visit(ToPair(), given);
}
template <typename Padding>
ConvPadding padding(const Padding& given) {
  return std::visit(ToPadding(), given);
}

Tensor call_conv1d(const Tensor& input, const Tensor& weight, const MaybeTensor& bias, Int stride,
                   const Padding1d& pad, Int dilation, Int groups) {
  return conv1d(input, weight, bias.value_or(Tensor()), stride, padding(pad), dilation, groups);
}

Tensor call_conv2d(const Tensor& input, const Tensor& weight, const MaybeTensor& bias,
                   const Pair& stride, const Padding2d& pad, const Pair& dilation, Int groups) {
  return conv2d(input, weight, bias.value_or(Tensor()), pair(stride), padding(pad), pair(dilation),
                groups);
}

Tensor call_conv_transpose2d(const Tensor& input, const Tensor& weight, const MaybeTensor& bias,
                             const Pair& stride, const Pair& pad, const Pair& output_padding,
                             Int groups, const Pair& dilation) {
  return conv_transpose2d(input, weight, bias.value_or(Tensor()), pair(stride), pair(pad),
                          pair(output_padding), groups, pair(dilation));
}

constexpr const char* kBias = "bias: [co], or None.";
constexpr const char* kStride = "stride: a number.";
constexpr const char* kPairStride = "stride: a number or a pair (height, width).";
constexpr const char* kPadding = "padding: a number, \"valid\" or \"same\".";
constexpr const char* kPairPadding = "padding: the same, \"valid\" or \"same\".";
constexpr const char* kPlainPadding = "padding: the same.";
constexpr const char* kOutputPadding =
    "output_padding: rows and columns more at the end, likewise.";
constexpr const char* kDilation =
    "dilation: distance between the elements of the kernel, likewise.";
constexpr const char* kGroups = "groups: parts into which the channels are cut.";
constexpr const char* kInChannels = "in_channels: of the input.";
constexpr const char* kOutChannels = "out_channels: of the output.";
constexpr const char* kKernel = "kernel_size: a number.";
constexpr const char* kPairKernel = "kernel_size: a number or a pair (height, width).";
constexpr const char* kDividing = "groups: parts into which the channels are cut; divides both.";
constexpr const char* kHasBias = "bias: whether there is one.";
constexpr const char* kConvolutionRaises =
    "InvalidArgumentError: an option is out of range; called, shapes that do not fit.";
constexpr const char* kBadCall =
    "InvalidArgumentError: shapes, dtypes or options do not fit; names both shapes.";

void bind_conv_functions(py::module_& m) {
  const auto input = py::arg("input");
  const auto weight = py::arg("weight");
  const auto bias = py::arg("bias") = py::none();
  const auto stride = py::arg("stride") = 1;
  const auto pad = py::arg("padding") = 0;
  const auto dilation = py::arg("dilation") = 1;
  const auto groups = py::arg("groups") = 1;
  m.def("conv1d", &call_conv1d, input, weight, bias, stride, pad, dilation, groups, ReleaseGil(),
        tensor_doc("Convolution of sequences.",
                   {"input: [n, ci, l].", "weight: [co, ci / groups, k].", kBias, kStride, kPadding,
                    kDilation, kGroups},
                   "[n, co, l'].", kBadCall)
            .c_str());
  m.def("conv2d", &call_conv2d, input, weight, bias, stride, pad, dilation, groups, ReleaseGil(),
        tensor_doc("Convolution of images.",
                   {"input: [n, ci, h, w].", "weight: [co, ci / groups, kh, kw].", kBias,
                    kPairStride, kPairPadding, kDilation, kGroups},
                   "[n, co, h', w'].", kBadCall)
            .c_str());
  m.def("conv_transpose2d", &call_conv_transpose2d, input, weight, bias, stride, pad,
        py::arg("output_padding") = 0, groups, dilation, ReleaseGil(),
        tensor_doc("The gradient of conv2d to its input as a function.",
                   {"input: [n, ci, h, w].", "weight: [ci, co / groups, kh, kw].", kBias,
                    kPairStride, kPlainPadding, kOutputPadding, kDilation, kGroups},
                   "[n, co, h', w'].", kBadCall)
            .c_str());
}

std::shared_ptr<nn::Conv1d> make_conv1d(Int in, Int out, Int kernel, Int stride,
                                        const Padding1d& pad, Int dilation, Int groups,
                                        Flag<"bias"> bias) {
  return std::make_shared<nn::Conv1d>(
      in, out, kernel, nn::Conv1dOptions{stride, padding(pad), dilation, groups, bias});
}

std::shared_ptr<nn::Conv2d> make_conv2d(Int in, Int out, const Pair& kernel, const Pair& stride,
                                        const Padding2d& pad, const Pair& dilation, Int groups,
                                        Flag<"bias"> bias) {
  return std::make_shared<nn::Conv2d>(
      in, out, pair(kernel),
      nn::Conv2dOptions{pair(stride), padding(pad), pair(dilation), groups, bias});
}

std::shared_ptr<nn::ConvTranspose2d> make_conv_transpose2d(Int in, Int out, const Pair& kernel,
                                                           const Pair& stride, const Pair& pad,
                                                           const Pair& output_padding, Int groups,
                                                           Flag<"bias"> bias,
                                                           const Pair& dilation) {
  return std::make_shared<nn::ConvTranspose2d>(
      in, out, pair(kernel),
      nn::ConvTranspose2dOptions{pair(stride), pair(pad), pair(output_padding), groups, bias,
                                 pair(dilation)});
}

void bind_modules(py::module_& m) {
  const auto in = py::arg("in_channels");
  const auto out = py::arg("out_channels");
  const auto kernel = py::arg("kernel_size");
  const auto stride = py::arg("stride") = 1;
  const auto pad = py::arg("padding") = 0;
  const auto dilation = py::arg("dilation") = 1;
  const auto groups = py::arg("groups") = 1;
  const auto bias = py::arg("bias") = true;
  py::classh<nn::Conv1d, nn::Module> conv1(
      m, "Conv1d",
      class_doc(
          "Convolution of sequences, as conv1d(): [n, in, l] -> [n, out, l'].",
          {kInChannels, kOutChannels, kKernel, kStride, kPadding, kDilation, kDividing, kHasBias},
          kConvolutionRaises)
          .c_str());
  conv1.def(py::init(&make_conv1d), in, out, kernel, stride, pad, dilation, groups, bias);
  def_weight(conv1);
  def_bias(conv1);
  py::classh<nn::Conv2d, nn::Module> conv2(
      m, "Conv2d",
      class_doc("Convolution of images, as conv2d(): [n, in, h, w] -> [n, out, h', w'].",
                {kInChannels, kOutChannels, kPairKernel, kPairStride, kPairPadding, kDilation,
                 kDividing, kHasBias},
                kConvolutionRaises)
          .c_str());
  conv2.def(py::init(&make_conv2d), in, out, kernel, stride, pad, dilation, groups, bias);
  def_weight(conv2);
  def_bias(conv2);
  py::classh<nn::ConvTranspose2d, nn::Module> transposed(
      m, "ConvTranspose2d",
      class_doc("Transposed convolution, as conv_transpose2d(): [n, in, h, w] -> [n, out, h', w'].",
                {kInChannels, kOutChannels, kPairKernel, kPairStride, kPlainPadding, kOutputPadding,
                 kDilation, kDividing, kHasBias},
                kConvolutionRaises)
          .c_str());
  transposed.def(py::init(&make_conv_transpose2d), in, out, kernel, stride, pad,
                 py::arg("output_padding") = 0, groups, bias, dilation);
  def_weight(transposed);
  def_bias(transposed);
}

}  // namespace

void bind_convolution(py::module_& m) {
  bind_conv_functions(m);
  bind_modules(m);
}

}  // namespace hvd::python
