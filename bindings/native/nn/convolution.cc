#include "horovod_cpp/autograd/functions/convolution.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <variant>

#include "bindings/native/nn/nn.h"
#include "bindings/native/tensor/tensor.h"
#include "horovod_cpp/nn/layers/layers.h"

namespace hvd::python {

using Int = Integer;
using Padding1d = std::variant<Int, std::string>;
using Padding2d = Typed<"PairLike | str">;

// Not in the unnamed namespace: converting() finds them by their arguments.
static IntPair native(const PairLike& given) {
  return int_pair_from(given);
}
static ConvPadding native(const Padding1d& given) {
  if (const auto* word = std::get_if<std::string>(&given)) return std::string_view(*word);
  return std::get<Int>(given).value;
}
static ConvPadding native(const Padding2d& given) {
  if (py::isinstance<py::str>(given)) return std::string_view(given.cast<std::string>());
  return int_pair_from(given);
}

namespace {

constexpr Arg kStride{"stride", "a number."};
constexpr Arg kPairStride{"stride", "a number or a pair (height, width)."};
constexpr Arg kPadding{"padding", "a number, \"valid\" or \"same\"."};
constexpr Arg kPairPadding{"padding", "the same, \"valid\" or \"same\"."};
constexpr Arg kPlainPadding{"padding", "the same."};
constexpr Arg kOutputPadding{"output_padding", "rows and columns more at the end, likewise."};
constexpr Arg kDilation{"dilation", "distance between the elements of the kernel, likewise."};
constexpr Arg kGroups{"groups", "parts into which the channels are cut."};
constexpr Invalid kBadCall{"shapes, dtypes or options do not fit; names both shapes."};
constexpr Arg kDividing{"groups", "parts into which the channels are cut; divides both."};

void bind_conv_functions(py::module_& m) {
  const auto bias = Arg("bias", "[co], or None.") = py::none();
  const auto dilation = kDilation = 1, groups = kGroups = 1;
  define(m, "conv1d", converting<Tensor, Tensor, MaybeTensor, Int, Padding1d, Int, Int>(&conv1d),
         "Convolution of sequences.", Arg("input", "[n, ci, l]."),
         Arg("weight", "[co, ci / groups, k]."), bias, kStride = 1, kPadding = 0, dilation, groups,
         Returns{"[n, co, l']."}, kBadCall);
  define(m, "conv2d",
         converting<Tensor, Tensor, MaybeTensor, PairLike, Padding2d, PairLike, Int>(&conv2d),
         "Convolution of images.", Arg("input", "[n, ci, h, w]."),
         Arg("weight", "[co, ci / groups, kh, kw]."), bias, kPairStride = 1, kPairPadding = 0,
         dilation, groups, Returns{"[n, co, h', w']."}, kBadCall);
  define(m, "conv_transpose2d",
         converting<Tensor, Tensor, MaybeTensor, PairLike, PairLike, PairLike, Int, PairLike>(
             &conv_transpose2d),
         "The gradient of conv2d to its input as a function.", Arg("input", "[n, ci, h, w]."),
         Arg("weight", "[ci, co / groups, kh, kw]."), bias, kPairStride = 1, kPlainPadding = 0,
         kOutputPadding = 0, groups, dilation, Returns{"[n, co, h', w']."}, kBadCall);
}

// `Given` are the arguments for the fields of `Options`, which `options` name.
template <typename Layer, typename Options, typename Kernel, typename... Given>
void bind_layer(py::module_& m, const char* name, const char* what, const char* kernel,
                const auto&... options) {
  auto cls = define_layer<Layer>(
      m, name, what, py::init([](Int in, Int out, const Kernel& size, const Given&... given) {
        return std::make_shared<Layer>(in, out, native(size), Options{native(given)...});
      }),
      Arg("in_channels", "of the input."), Arg("out_channels", "of the output."),
      Arg("kernel_size", kernel), options...,
      Invalid{"an option is out of range; called, shapes that do not fit."});
  def_weight(cls);
  def_bias(cls);
}

void bind_conv_layers(py::module_& m) {
  constexpr const char* kNumber = "a number.";
  constexpr const char* kPair = "a number or a pair (height, width).";
  using Bias = Flag<"bias">;
  const auto dilation = kDilation = 1, groups = kDividing = 1;
  bind_layer<nn::Conv1d, nn::Conv1dOptions, Int, Int, Padding1d, Int, Int, Bias>(
      m, "Conv1d", "Convolution of sequences, as conv1d(): [n, in, l] -> [n, out, l'].", kNumber,
      kStride = 1, kPadding = 0, dilation, groups, kBias = true);
  bind_layer<nn::Conv2d, nn::Conv2dOptions, PairLike, PairLike, Padding2d, PairLike, Int, Bias>(
      m, "Conv2d", "Convolution of images, as conv2d(): [n, in, h, w] -> [n, out, h', w'].", kPair,
      kPairStride = 1, kPairPadding = 0, dilation, groups, kBias = true);
  bind_layer<nn::ConvTranspose2d, nn::ConvTranspose2dOptions, PairLike, PairLike, PairLike,
             PairLike, Int, Bias, PairLike>(
      m, "ConvTranspose2d",
      "Transposed convolution, as conv_transpose2d(): [n, in, h, w] -> [n, out, h', w'].", kPair,
      kPairStride = 1, kPlainPadding = 0, kOutputPadding = 0, groups, kBias = true, dilation);
}

}  // namespace

void bind_convolution(py::module_& m) {
  bind_conv_functions(m);
  bind_conv_layers(m);
}

}  // namespace hvd::python
