#include "horovod_cpp/autograd/functions/convolution.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "bindings/native/nn/nn.h"
#include "bindings/native/tensor/tensor.h"
#include "horovod_cpp/nn/layers/layers.h"

namespace hvd::python {

// A pair of integers. A tensor is none: pybind11 would ask a scalar for its length.
struct TwoIntegers {
  Integer first;
  Integer second;
};

}  // namespace hvd::python

template <>
struct pybind11::detail::type_caster<hvd::python::TwoIntegers> {
  using Both = std::pair<hvd::python::Integer, hvd::python::Integer>;
  PYBIND11_TYPE_CASTER(hvd::python::TwoIntegers, make_caster<Both>::name);

  bool load(handle source, bool convert) {
    make_caster<Both> both;
    if (isinstance<hvd::Tensor>(source) || !both.load(source, convert)) return false;
    const Both loaded = cast_op<Both>(std::move(both));
    value = {loaded.first, loaded.second};
    return true;
  }
};

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
  define(m, "conv1d", &call_conv1d, "Convolution of sequences.", Arg("input", "[n, ci, l]."),
         Arg("weight", "[co, ci / groups, k]."), bias, kStride = 1, kPadding = 0, dilation, groups,
         ReleaseGil(), Returns{"[n, co, l']."}, kBadCall);
  define(m, "conv2d", &call_conv2d, "Convolution of images.", Arg("input", "[n, ci, h, w]."),
         Arg("weight", "[co, ci / groups, kh, kw]."), bias, kPairStride = 1, kPairPadding = 0,
         dilation, groups, ReleaseGil(), Returns{"[n, co, h', w']."}, kBadCall);
  define(m, "conv_transpose2d", &call_conv_transpose2d,
         "The gradient of conv2d to its input as a function.", Arg("input", "[n, ci, h, w]."),
         Arg("weight", "[ci, co / groups, kh, kw]."), bias, kPairStride = 1, kPlainPadding = 0,
         kOutputPadding = 0, groups, dilation, ReleaseGil(), Returns{"[n, co, h', w']."}, kBadCall);
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

// `kernel` and `options`: the arguments behind in_channels and out_channels.
template <typename Layer, typename Make, typename... Options>
void bind_layer(py::module_& m, const char* name, const char* what, Make make, const char* kernel,
                const Options&... options) {
  auto cls = define_layer<Layer>(
      m, name, what, py::init(make), Arg("in_channels", "of the input."),
      Arg("out_channels", "of the output."), Arg("kernel_size", kernel), options...,
      Invalid{"an option is out of range; called, shapes that do not fit."});
  def_weight(cls);
  def_bias(cls);
}

void bind_conv_layers(py::module_& m) {
  constexpr const char* kNumber = "a number.";
  constexpr const char* kPair = "a number or a pair (height, width).";
  const auto dilation = kDilation = 1, groups = kDividing = 1;
  bind_layer<nn::Conv1d>(
      m, "Conv1d", "Convolution of sequences, as conv1d(): [n, in, l] -> [n, out, l'].",
      &make_conv1d, kNumber, kStride = 1, kPadding = 0, dilation, groups, kBias = true);
  bind_layer<nn::Conv2d>(
      m, "Conv2d", "Convolution of images, as conv2d(): [n, in, h, w] -> [n, out, h', w'].",
      &make_conv2d, kPair, kPairStride = 1, kPairPadding = 0, dilation, groups, kBias = true);
  bind_layer<nn::ConvTranspose2d>(
      m, "ConvTranspose2d",
      "Transposed convolution, as conv_transpose2d(): [n, in, h, w] -> [n, out, h', w'].",
      &make_conv_transpose2d, kPair, kPairStride = 1, kPlainPadding = 0, kOutputPadding = 0, groups,
      kBias = true, dilation);
}

}  // namespace

void bind_convolution(py::module_& m) {
  bind_conv_functions(m);
  bind_conv_layers(m);
}

}  // namespace hvd::python
