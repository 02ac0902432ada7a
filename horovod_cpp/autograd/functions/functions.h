#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "horovod_cpp/autograd/functions/convolution.h"
#include "horovod_cpp/tensor/tensor.h"

// Differentiable functions of tensors. Inputs broadcast as in NumPy where two are combined; both
// must have one dtype (nothing is cast silently; see autograd/modes.h for casting on request).
// Shapes that do not fit throw InvalidArgumentError naming both. Results are new and a function of
// the inputs' values alone: the same bits wherever they lie. They are contiguous, except that
// images stay channels last (autograd/functions/convolution.h). float16 and bfloat16 are computed
// in float32 and rounded; integers add, subtract, multiply and sum.
namespace hvd {

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor neg(const Tensor& a);
// Floating dtypes. e^x below the smallest normal number is 0; relu keeps NaN, its slope at 0 is 0.
Tensor pow(const Tensor& a, double exponent);
// Element by element; the exponent broadcasts, is converted to a's dtype and has a gradient: 0
// where the base is 0 and the exponent is not negative.
Tensor pow(const Tensor& a, const Tensor& exponent);
Tensor exp(const Tensor& a);
Tensor log(const Tensor& a);
Tensor sqrt(const Tensor& a);
Tensor tanh(const Tensor& a);
Tensor sigmoid(const Tensor& a);
Tensor relu(const Tensor& a);

// [..., m, k] x [..., k, n] -> [..., m, n], the leading axes broadcast; either may be strided, e.g.
// a.t(). A vector on the left is a row, one on the right a column, whose axis then goes.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);  // [m] and [n] -> [m, n]
Tensor dot(const Tensor& a, const Tensor& b);    // of two vectors, a scalar of their dtype
// input [..., in], weight [out, in], bias [out] or undefined -> [..., out]
Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {});

// Over the given axes (empty = all). Integers and bools add up in int64; mean takes floating
// dtypes.
Tensor sum(const Tensor& a, std::vector<std::int64_t> axes = {}, bool keepdim = false);
Tensor mean(const Tensor& a, std::vector<std::int64_t> axes = {}, bool keepdim = false);
// The largest element as a scalar; equal ones share the gradient, a NaN wins.
Tensor max(const Tensor& a);
// Index of the (first) largest element along an axis, which goes unless keepdim; int64. Not
// differentiable. Without an axis: in the row-major order of all elements.
Tensor argmax(const Tensor& a, std::int64_t axis, bool keepdim = false);
Tensor argmax(const Tensor& a);
Tensor log_softmax(const Tensor& a, std::int64_t axis);
Tensor softmax(const Tensor& a, std::int64_t axis);
// Parts agree in dtype and in every other axis; stack makes a new axis.
Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis);
Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis);

// input [n, c, h, w] -> [n, c, oh, ow], oh = (h - kernel) / stride + 1; otherwise as the one below
// that takes options.
Tensor max_pool2d(const Tensor& input, int kernel, int stride = 0 /* kernel */);
// Normalises each channel of [n, c, h, w]; the other tensors are [c]. In training it uses the
// batch's statistics and moves the running ones by `momentum` (the variance unbiased, as PyTorch's)
// and needs two values per channel; else it uses the running ones. Those may not require grad.
Tensor batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias,
                  Tensor& running_mean, Tensor& running_var, bool training, double momentum = 0.1,
                  double eps = 1e-5);
// Zeroes with probability p and scales the rest by 1/(1-p); the input itself if not training. Draws
// from this thread's default_generator().
Tensor dropout(const Tensor& input, double p, bool training);

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a);
// A number takes the tensor's dtype; throws InvalidArgumentError if that would lose its fraction.
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);

// -- more element-wise functions; these four take integers too

Tensor abs(const Tensor& a);   // its slope at 0 is 0
Tensor sign(const Tensor& a);  // -1, 0 or 1; its slope is 0
Tensor square(const Tensor& a);
// Within [min, max]; a bound that is not given does not bound. The gradient passes at the bounds.
// Throws InvalidArgumentError without any bound.
Tensor clamp(const Tensor& a, std::optional<double> min, std::optional<double> max = {});
// The same with bounds that broadcast, are converted to a's dtype and have gradients:
// where a bound is the result it gets the gradient, `a` at the bounds. An undefined one does not
// bound; a NaN as bound is the result.
Tensor clamp(const Tensor& a, const Tensor& min, const Tensor& max);

// Floating dtypes.
Tensor reciprocal(const Tensor& a);
Tensor rsqrt(const Tensor& a);  // 1 / sqrt(a)
Tensor sin(const Tensor& a);
Tensor cos(const Tensor& a);
Tensor erf(const Tensor& a);
Tensor log1p(const Tensor& a);  // log(1 + a)

// The larger, or smaller, of each pair; a NaN wins, equal ones share the gradient. Any real dtype.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// -- activations besides relu, sigmoid, tanh, softmax and log_softmax; floating dtypes

// a where a > 0, else negative_slope * a; the slope at 0 is negative_slope.
Tensor leaky_relu(const Tensor& a, double negative_slope = 0.01);

// a * sigmoid(a) (Elfwing, Uchibe, Doya: "Sigmoid-weighted linear units", 2018).
Tensor silu(const Tensor& a);

// Hendrycks, Gimpel: "Gaussian error linear units", 2016. kNone: a * Phi(a) with the normal
// distribution's Phi. kTanh: their approximation 0.5 a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))).
enum class GeluApproximate { kNone, kTanh };
Tensor gelu(const Tensor& a, GeluApproximate approximate = GeluApproximate::kNone);

// -- cutting, repeating and turning tensors of any dtype

// PyTorch's short name of concat.
Tensor cat(const std::vector<Tensor>& parts, std::int64_t axis = 0);

// Views of `size` positions each along an axis, the last one what is left; or of the given sizes,
// which add up to the extent. Throws InvalidArgumentError otherwise.
std::vector<Tensor> split(const Tensor& a, std::int64_t size, std::int64_t axis = 0);
std::vector<Tensor> split(const Tensor& a, const std::vector<std::int64_t>& sizes,
                          std::int64_t axis = 0);
// At most `count` views of equal size, except the last.
std::vector<Tensor> chunk(const Tensor& a, std::int64_t count, std::int64_t axis = 0);

// A copy with the order along each of the axes reversed.
Tensor flip(const Tensor& a, std::vector<std::int64_t> axes);
// A copy of the whole, repeats[i] times along axis i; further repeats make axes in front.
Tensor repeat(const Tensor& a, const std::vector<std::int64_t>& repeats);
// A copy of the matrices (last two axes) with 0 above, or below, a diagonal; diagonal 1 is the one
// above the main one.
Tensor tril(const Tensor& a, std::int64_t diagonal = 0);
Tensor triu(const Tensor& a, std::int64_t diagonal = 0);

// -- normalisation within each example (batch_norm: across examples); floating dtypes. Weight and
// bias of half types may be float32. Variances are biased, as PyTorch's.

// Over the last axes, which have the shape `normalized_shape`; weight and bias have that shape or
// are undefined (Ba, Kiros, Hinton: "Layer normalization", 2016).
Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// input [n, c, ...]: over each of `num_groups` groups of channels of each example; weight and bias
// [c] or undefined (Wu, He: "Group normalization", ECCV 2018).
Tensor group_norm(const Tensor& input, std::int64_t num_groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

// weight [count, dim], indices int64 of any shape -> [..., dim]: a row for each index. The row
// `padding_idx` (negative: from the end) gets no gradient. With `sparse` the weight's gradient
// keeps only the rows that were read (row_gradient.h). Throws InvalidArgumentError naming an index
// that is no row.
Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx = std::nullopt, bool sparse = false);

// -- one direction of one recurrent layer over a whole sequence as one recorded operation.
// Half types are computed in float32 and rounded, unless autocast is enabled. projected [steps,
// batch, gates * hidden] is input * weight_ih^T with its bias; weight [gates * hidden, hidden];
// initial states [batch, hidden]. `reverse` walks from the last step to the first. Shapes that do
// not fit throw InvalidArgumentError naming them.

struct LstmResult {
  Tensor output;  // [steps, batch, hidden]
  Tensor cell;    // [batch, hidden]: the last one
};
// Gates in PyTorch's order: input, forget, cell, output. `projected` has both biases.
LstmResult lstm_sequence(const Tensor& projected, const Tensor& weight, const Tensor& hidden,
                         const Tensor& cell, bool reverse = false);

// Gates in PyTorch's order: reset, update, new. bias [3 * hidden] belongs to `weight`. Returns the
// outputs [steps, batch, hidden].
Tensor gru_sequence(const Tensor& projected, const Tensor& weight, const Tensor& bias,
                    const Tensor& hidden, bool reverse = false);

// -- pooling over windows of [n, c, h, w] of a floating dtype. Errors are InvalidArgumentError
// naming the function, the input's shape and the argument.

// oh = (h + 2 padding - kernel) / stride + 1, rounded down, or up with ceil_mode (a window that
// would start beyond the input and its first padding is left out). Padding is at most half of the
// kernel.
struct Pool2dOptions {
  IntPair kernel_size = 1;
  IntPair stride = 0;  // 0: the kernel's
  IntPair padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;  // means only: whether padding counts in the divisor
};

// The largest of each window, padding left aside; the first of several gets the gradient, but a
// NaN wins, the last of several. The result is channels last (autograd/functions/convolution.h).
Tensor max_pool2d(const Tensor& input, const Pool2dOptions& options);
Tensor avg_pool2d(const Tensor& input, const Pool2dOptions& options);
// Means over output_size windows: window i of n reads [floor(i h / n), ceil((i + 1) h / n)).
// An extent kInputExtent is the input's.
Tensor adaptive_avg_pool2d(const Tensor& input, IntPair output_size);

// -- functions that give bool tensors, and those that a bool tensor tells what to do. Operands
// broadcast; two tensors to be compared have one dtype, a number need not fit into an integer one.

// Any dtype; complex numbers have no order. A NaN is unequal to anything. Not differentiable.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, double b);
Tensor ne(const Tensor& a, double b);
Tensor lt(const Tensor& a, double b);
Tensor le(const Tensor& a, double b);
Tensor gt(const Tensor& a, double b);
Tensor ge(const Tensor& a, double b);

// Any dtypes; what is not 0 is true, NaN too.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& a);
Tensor isnan(const Tensor& a);

// Whether any, or every, element along the axes (empty = all) is not 0.
Tensor any(const Tensor& a, std::vector<std::int64_t> axes = {}, bool keepdim = false);
Tensor all(const Tensor& a, std::vector<std::int64_t> axes = {}, bool keepdim = false);

// `a` where the condition (bool) is true, else `b`, of one dtype. Differentiable; what was not
// chosen gets 0, even where the other's gradient is not finite.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// A copy of `a` with `value` where the mask (bool, broadcast to a's shape) is true. Differentiable.
Tensor masked_fill(const Tensor& a, const Tensor& mask, double value);
// The same with a tensor of one element, which is converted to a's dtype and gets the gradients
// of what it filled.
Tensor masked_fill(const Tensor& a, const Tensor& mask, const Tensor& value);

Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, double b);
Tensor operator<=(const Tensor& a, double b);
Tensor operator>(const Tensor& a, double b);
Tensor operator>=(const Tensor& a, double b);

// -- reading and writing at positions that int64 tensors give, or masks. A position outside its
// axis throws InvalidArgumentError naming the function, the position and the extent; only index()
// takes negative ones. All are differentiable in what is read and written, not in the positions.
// Results are new.

// out[i][j] = a[index[i][j]][j] for axis 0, and so on for others. `index` has as many axes as `a`
// and, except along `axis`, reaches no further.
Tensor gather(const Tensor& a, std::int64_t axis, const Tensor& index);
// A copy of `a` with out[index[i][j]][j] = source[i][j], or += source[i][j]. `source` reaches as
// far as `index` at least. Of several writes to one element the last in row-major order stays.
Tensor scatter(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source);
Tensor scatter_add(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source);

// The same in `a` itself. Not recorded: throws InvalidArgumentError where `a` or `source` requires
// grad, outside no_grad.
void scatter_(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source);
void scatter_add_(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source);

// The slices at index[0], index[1], ... along an axis; `index` has one axis.
Tensor index_select(const Tensor& a, std::int64_t axis, const Tensor& index);
// A copy of `a` with alpha * source's slice i added to the slice at index[i].
Tensor index_add(const Tensor& a, std::int64_t axis, const Tensor& index, const Tensor& source,
                 double alpha = 1.0);

// NumPy's indexing with arrays: indices[i] picks along axis i, all of an axis where it is undefined
// or left out. int64 indices broadcast against each other; a bool one stands for the positions of
// its true elements, one index for each of its axes. The axes that were picked from are replaced by
// those of the (broadcast) indices, in place where they are neighbours, else in front.
Tensor index(const Tensor& a, const std::vector<Tensor>& indices);
// Writes `values`, which broadcasts, at those positions; adds instead if `accumulate`. In place;
// not recorded: throws InvalidArgumentError where `a` or `values` requires grad, outside no_grad.
void index_put_(const Tensor& a, const std::vector<Tensor>& indices, const Tensor& values,
                bool accumulate = false);

// The elements where the mask (bool, both broadcast) is true, in row-major order; one axis.
Tensor masked_select(const Tensor& a, const Tensor& mask);
// Positions of the elements that are not 0, int64 [count, axes], in row-major order.
Tensor nonzero(const Tensor& a);
// int64 classes of any shape -> int64 [..., classes], 1 at each class. -1: the largest plus one.
Tensor one_hot(const Tensor& classes, std::int64_t class_count = -1);

// -- more reductions and what is found by ordering. Axes as above: negative ones count from
// the end, none given means all.

struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  // int64, positions along the axis
};

// The largest, or smallest, elements along an axis, which goes unless keepdim, and the first of
// their positions. The gradient goes to that position; a NaN wins. Throws InvalidArgumentError when
// the axis is empty.
ValuesAndIndices max(const Tensor& a, std::int64_t axis, bool keepdim = false);
ValuesAndIndices min(const Tensor& a, std::int64_t axis, bool keepdim = false);
// The smallest element as a scalar.
Tensor min(const Tensor& a);
// Positions of the (first) smallest elements, int64; not differentiable. Without an axis: in the
// row-major order of all elements.
Tensor argmin(const Tensor& a, std::int64_t axis, bool keepdim = false);
Tensor argmin(const Tensor& a);

// Mean squared distance from the mean, the sum divided by count - correction, and its root. A count
// of correction or less gives NaN. Floating dtypes, computed in float64 and rounded. Where std is 0
// its gradient is 0 too.
Tensor var(const Tensor& a, std::vector<std::int64_t> axes = {}, double correction = 1.0,
           bool keepdim = false);
Tensor std(const Tensor& a, std::vector<std::int64_t> axes = {}, double correction = 1.0,
           bool keepdim = false);
// (sum |a|^p)^(1/p); p may be infinity (the largest |a|). Floating dtypes. The gradient of a norm
// of 0 is 0. Throws InvalidArgumentError unless p > 0.
Tensor norm(const Tensor& a, double p = 2.0, std::vector<std::int64_t> axes = {},
            bool keepdim = false);

// Integers and bools multiply and add up in int64.
Tensor prod(const Tensor& a);
Tensor prod(const Tensor& a, std::int64_t axis, bool keepdim = false);
// Running sums along an axis.
Tensor cumsum(const Tensor& a, std::int64_t axis);

// In stable order along an axis, NaN last (first if descending). The values are differentiable.
ValuesAndIndices sort(const Tensor& a, std::int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor& a, std::int64_t axis = -1, bool descending = false);
// The first k of them. Throws InvalidArgumentError unless 0 <= k <= extent.
ValuesAndIndices topk(const Tensor& a, std::int64_t k, std::int64_t axis = -1, bool largest = true);
// How often 0, 1, 2, ... occur among the non-negative int64 elements; int64, at least `minlength`
// counts.
Tensor bincount(const Tensor& a, std::int64_t minlength = 0);

// -- losses with PyTorch's formulas, differentiable. Half types are computed in float32 and
// rounded, unless autocast is enabled. Errors are InvalidArgumentError naming the loss and the
// shapes or the value that does not fit.

// What happens to the losses of the elements (or examples): they stay, or become their mean or sum.
// kBatchMean, the sum divided by input.size(0), is for kl_div alone.
enum class LossReduction { kNone, kMean, kSum, kBatchMean };

// Element by element: input and target have one shape. Gradients flow to both.

// (input - target)^2
Tensor mse_loss(const Tensor& input, const Tensor& target,
                LossReduction reduction = LossReduction::kMean);
// |input - target|; its slope at 0 is 0.
Tensor l1_loss(const Tensor& input, const Tensor& target,
               LossReduction reduction = LossReduction::kMean);
// With d = |input - target|: d^2 / 2 where d < delta, else delta (d - delta / 2); delta > 0.
Tensor huber_loss(const Tensor& input, const Tensor& target,
                  LossReduction reduction = LossReduction::kMean, double delta = 1.0);
// d^2 / (2 beta) where d < beta, else d - beta / 2; beta >= 0.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      LossReduction reduction = LossReduction::kMean, double beta = 1.0);
// -(t log x + (1 - t) log(1 - x)), logarithms clamped at -100; x within [0, 1]. `weight`, if
// defined, broadcasts to the input's shape and multiplies.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const Tensor& weight = {},
                            LossReduction reduction = LossReduction::kMean);
// The same of sigmoid(input), without overflow. `pos_weight`, if defined, broadcasts and multiplies
// the first term; no gradient flows to it, and one that requires grad throws.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const Tensor& weight = {},
                                        LossReduction reduction = LossReduction::kMean,
                                        const Tensor& pos_weight = {});
// target (log target - input), 0 where target is 0; with log_target, exp(target) (target - input).
Tensor kl_div(const Tensor& input, const Tensor& target,
              LossReduction reduction = LossReduction::kMean, bool log_target = false);

// Classes: input [n, classes, ...] (or [classes]), targets int64 without the axis of classes

struct ClassLossOptions {
  // [classes]: factor of each class; undefined = 1. Where targets are classes, no gradient flows to
  // it, and one that requires grad throws.
  Tensor weight = {};
  std::int64_t ignore_index = -100;  // examples with this target count nowhere
  LossReduction reduction =
      LossReduction::kMean;      // the mean is weighted: sum of losses / sum of weights
  double label_smoothing = 0.0;  // cross_entropy only; within [0, 1]
};

// -weight[t] * log_probability[t]. Throws InvalidArgumentError naming a target that is not a class.
Tensor nll_loss(const Tensor& log_probability, const Tensor& targets,
                const ClassLossOptions& options = {});
// nll_loss(log_softmax(logits)). Smoothing mixes the target with the uniform distribution (Szegedy
// et al.: "Rethinking the Inception architecture", CVPR 2016). `targets` may also be probabilities,
// of the logits' shape and dtype; ignore_index has no effect then and the mean is over examples.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const ClassLossOptions& options = {});

}  // namespace hvd
