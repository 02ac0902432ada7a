"""Inputs for every function of the built-in layer that takes a tensor.

`CASES`: by name, what it is called with. An entry is for all functions of that name, in
`horovod_cpp`, its `Tensor` (the first argument is `self`, or the object that a property is read
from), `nn.functional` and `nn.init`; one with the prefix `hvd.`, `Tensor.`, `F.` or `init.` is for
that function alone. Each parameter that takes a tensor needs one, and each that takes a number a
`number`, in some of the cases. Different axes of a case have different extents unless they belong
together: some of the tests set all axes of one extent to 0.
"""

import numpy as np
from layouts import case, every, number, positive, real, truth, whole, written

A, A3 = real(5, 3), real(2, 3, 4)
IMAGES = real(2, 4, 6, 7)
EXTENTS = (number(2), number(1))

# Functions that have no entry, and why.
EXCLUDED = {
    "hvd.gradcheck": "takes a function; its inputs are checked one element at a time",
    "hvd.gradgradcheck": "like gradcheck",
    "hvd.row_gradient": "of a leaf after backward(): test_sparse_gradients.py",
    "hvd.grad": "takes results of a graph: test_autograd.py",
    "Tensor.backward": "all cases call it",
    "Tensor.grad": "all cases read it",
    "Tensor.register_hook": "takes a function",
    "Tensor.cuda": "needs a GPU",
    "Tensor.stride": "tells of the layout", "Tensor.is_contiguous": "tells of the layout",
    "Tensor.is_same": "tells whether objects are one", "Tensor.__hash__": "is an object's own",
    "Tensor.__dlpack__": "gives a capsule: from_dlpack has cases",
}

CASES = {
    # Element by element.
    **every("abs __abs__ cos erf exp isnan neg __neg__ __pos__ relu sigmoid sign silu sin square "
            "tanh", case(A), case(A3), case(real())),
    **every("log log1p reciprocal rsqrt sqrt", case(positive(5, 3)), case(positive(2, 3, 4))),
    "gelu": [case(A), case(A, "tanh")],
    "leaky_relu": [case(A, number(0.2))],
    "dropout": [case(A, number(0.5)), case(A, 0.5, False)],
    **every("add sub mul maximum minimum", case(A, real(5, 3)), case(A, real(3)),
            case(real(), A), case(A3, real(3, 1))),
    "div": [case(A, positive(5, 3)), case(A, positive(3))],
    **every("__add__ __sub__ __mul__", case(A, real(5, 3)), case(A, real(3)), case(A, number(2.0))),
    "__truediv__": [case(A, positive(5, 3)), case(A, number(2.0))],
    **every("__radd__ __rsub__ __rmul__", case(A, number(2.0))),
    "__rtruediv__": [case(positive(5, 3), number(2.0))],
    **every("pow __pow__", case(positive(5, 3), real(5, 3)), case(positive(5, 3), real(3)),
            case(positive(5, 3), number(2.5)), case(A, 2)),
    "__rpow__": [case(A, number(2.0))],
    **every("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ eq ne lt le gt ge", case(A, real(5, 3)),
            case(whole(5, 3, below=3), whole(3, below=3)), case(A, number(0.5))),
    **every("__and__ __or__ __xor__ logical_and logical_or logical_xor",
            case(truth(5, 3), truth(5, 3)), case(truth(5, 3), truth(3))),
    **every("__invert__ logical_not", case(truth(5, 3))),
    "clamp": [case(A, number(-1.0), number(1.0)), case(A, real(5, 3, high=0.0), positive(3))],
    "where": [case(truth(5, 3), A, real(5, 3)), case(truth(3), A, real(5, 1)),
              case(truth(5, 3), A, number(2.0)), case(truth(5, 3), number(2.0), A),
              case(truth(5, 3), 2.0, 3.0)],
    "masked_fill": [case(A, truth(5, 3), number(2.0)), case(A, truth(3), number(2.0)),
                    case(A, truth(5, 3), real())],

    # Over axes.
    **every("sum mean", case(A), case(A3, number(1)), case(A3, (0, number(2))),
            case(A3, (0, 1), keepdims=True), case(A3, -1)),
    "norm": [case(A), case(A, number(3.0), number(0)), case(A3, 1.0, (0, 2))],
    **every("any all", case(truth(5, 3)), case(truth(5, 3), number(0)),
            case(truth(2, 3, 4), (0, 2)), case(A, 1)),
    **every("var std", case(A), case(A, False), case(A3, number(1), number(0.5)),
            case(A3, (0, 2), keepdims=True)),
    **every("max min", case(A), case(A, real(5, 3)), case(A, axis=number(1)),
            case(A, dim=number(0)), case(A3, 1, True)),
    **every("argmax argmin prod", case(A), case(A, number(1)), case(A3, 1, True), case(A3, 0)),
    **every("softmax log_softmax cumsum", case(A, number(1)), case(A, 0), case(A3, 1)),
    **every("sort argsort", case(A), case(A, number(0), True), case(A3, 1)),
    "topk": [case(A, number(2), number(0)), case(A3, 2, -1, False)],
    "bincount": [case(whole(7, below=4), number(6)), case(whole(7, below=4))],
    "nonzero": [case(truth(5, 3)), case(A)],

    # Products.
    **every("matmul __matmul__", case(A, real(3, 4)), case(real(2, 5, 3), real(2, 3, 4)),
            case(real(2, 5, 3), real(3, 4)), case(A, real(3)), case(real(5), real(5, 3))),
    "__rmatmul__": [case(A, np.ones((2, 5), np.float32))],
    "outer": [case(real(5), real(3))],
    "dot": [case(real(5), real(5))],
    "linear": [case(A, real(4, 3), real(4)), case(real(2, 5, 3), real(4, 3))],

    # Indices.
    "gather": [case(A, number(0), whole(2, 3, below=5)), case(A, 1, whole(5, 2, below=3))],
    **every("scatter scatter_add", case(A, number(0), whole(2, 3, below=5), real(2, 3)),
            case(A, 1, whole(5, 2, below=3), real(5, 2))),
    **every("scatter_ scatter_add_",
            case(written(5, 3), number(0), whole(2, 3, below=5), real(2, 3, learns=False)),
            case(written(5, 3), 1, whole(5, 2, below=3), real(5, 2, learns=False))),
    "index_select": [case(A, number(0), whole(4, below=5)), case(A, 1, whole(4, below=3))],
    "index_add": [case(A, number(0), whole(4, below=5), real(4, 3), number(2.0)),
                  case(A, 1, whole(4, below=3), real(5, 4))],
    "masked_select": [case(A, truth(5, 3)), case(A, truth(3))],
    "one_hot": [case(whole(4, 2, below=3), number(5)), case(whole(4, below=3))],
    "__getitem__": [case(A, whole(4, below=5)), case(A, whole(4, 2, below=5)), case(A, truth(5, 3)),
                    case(A, truth(5)), case(A, (whole(4, below=5), whole(4, below=3))),
                    case(A, (slice(1, 5, 2), 1)), case(A, (..., None, slice(0, 2))),
                    case(A3, (slice(None), whole(4, below=3)))],
    "__setitem__": [case(written(5, 3), whole(2, below=5), 1.5),
                    case(written(5, 3), truth(5, 3), 1.5),
                    case(written(5, 3), whole(4, below=5), real(3, learns=False)),
                    case(written(5, 3), truth(5), real(3, learns=False)),
                    case(written(5, 3), (slice(None), 1), real(5, learns=False)),
                    case(written(5, 3), slice(1, 4), 1.5), case(written(5, 3), 1, 1.5)],
    "embedding": [case(whole(4, 2, below=5), A, number(1)), case(whole(4, below=5), A)],

    # Arrangement.
    **every("cat concat stack", case([A, real(5, 3)], number(0)), case([A3, real(2, 3, 4)], 1)),
    "split": [case(A, number(2), number(0)), case(A, (number(2), 3))],
    "chunk": [case(A, number(2), number(0)), case(A3, 2, 1)],
    "repeat": [case(A, number(2), number(1)), case(A, (2, 2, 1))],
    **every("tril triu", case(A, number(1)), case(A3, -1)),
    "flip": [case(A, number(0)), case(A3, (0, number(2)))],
    "reshape": [case(A, number(3), 5), case(A3, (6, -1))],
    "view": [case(A, number(3), 5, refused="view"), case(A3, 2, 3, 2, 2, refused="view")],
    "view_as": [case(A, real(3, 5), refused="view")],
    "flatten": [case(A), case(A3, number(1), number(2))],
    "unsqueeze": [case(A, number(1))],
    "squeeze": [case(real(5, 1, 3)), case(real(5, 1, 3), number(1))],
    "expand": [case(real(1, 3), number(5), 3), case(A, 2, 5, 3)],
    "expand_as": [case(real(1, 3), real(5, 3))],
    "permute": [case(A3, number(2), number(0), 1)],
    **every("transpose swapaxes", case(A3, number(0), number(2))),
    **every("t", case(A), case(real(4))),
    "slice": [case(A, number(0), number(1), number(4), number(2)), case(A, 1, 1, 3)],
    "select": [case(A, number(0), number(1)), case(A3, 2, 1)],

    # Written in place.
    "copy_": [case(written(5, 3), real(5, 3)), case(written(5, 3), real(3))],
    "fill_": [case(written(5, 3), number(2.0)), case(written(5, 3), real())],
    "zero_": [case(written(5, 3))],
    **every("add_ sub_", case(written(5, 3), real(5, 3), number(2.0)),
            case(written(5, 3), real(3))),
    "mul_": [case(written(5, 3), real(5, 3)), case(written(5, 3), number(2.0))],
    "div_": [case(written(5, 3), positive(5, 3)), case(written(5, 3), positive(3))],
    **every("__iadd__ __isub__ __imul__ __itruediv__", case(written(5, 3), positive(5, 3)),
            case(written(5, 3), positive(3)), case(written(5, 3), number(2.0))),

    # Conversion and what a tensor tells.
    **every("clone contiguous cpu data detach ravel T mT __copy__ shape dtype ndim dim device "
            "is_cuda itemsize element_size nbytes is_floating_point numel is_leaf requires_grad "
            "requires_grad_ bfloat16 bool double float half int long __len__ __iter__ "
            "__repr__ __dlpack_device__ zeros_like ones_like", case(A), case(A3)),
    **every("tolist numpy __array__ from_dlpack", case(real(5, 3, learns=False)),
            case(whole(2, 3, below=9))),
    "size": [case(A), case(A, number(0))],
    "to": [case(A, "float64"), case(A, whole(2, below=2))],
    "astype": [case(A, "float64"), case(A, "int32")],
    **every("item __float__ __int__ __bool__ __complex__", case(real(1, 1, learns=False))),
    "__index__": [case(whole(1, below=9))],
    "__format__": [case(A, ""), case(real(1), ".2f")],
    "__contains__": [case(A, 0.5), case(A, real(learns=False)), case(whole(5, 3, below=4), 1)],
    "full_like": [case(A, number(2.0))],
    "tensor": [case(real(5, 3, learns=False))],
    "bitwise_equal": [case(A, real(5, 3)), case(whole(5, 3, below=1), whole(5, 3, below=1))],

    # Images and layers.
    "conv1d": [case(real(2, 4, 7), real(6, 2, 3), real(6), number(2), number(1), number(1),
                    number(2)), case(real(2, 4, 7), real(6, 4, 3))],
    "conv2d": [case(IMAGES, real(8, 2, 3, 3), real(8), (number(2), 1), (number(1), 0),
                    (1, number(1)), number(2)), case(IMAGES, real(8, 4, 3, 3)),
               case(IMAGES, real(8, 4, 1, 1))],
    "conv_transpose2d": [case(IMAGES, real(4, 5, 3, 3), real(10), (2, number(2)), (number(1), 1),
                              (number(1), 1), number(2), (1, number(1))),
                         case(IMAGES, real(4, 5, 3, 3))],
    "hvd.max_pool2d": [case(IMAGES, number(2), number(1)), case(IMAGES, 3)],
    "F.max_pool2d": [case(IMAGES, EXTENTS, EXTENTS, (0, number(0))), case(IMAGES, 3, 2, 1, True)],
    "avg_pool2d": [case(IMAGES, EXTENTS, EXTENTS, (0, number(0))), case(IMAGES, 3, 2, 1, True)],
    "adaptive_avg_pool2d": [case(IMAGES, (number(3), 2)), case(IMAGES, 1)],
    "layer_norm": [case(A, (number(3),), real(3), real(3), number(1e-5)), case(A3, (3, 4))],
    "group_norm": [case(IMAGES, number(2), real(4), real(4), number(1e-5)), case(real(2, 4), 2)],
    "batch_norm": [case(IMAGES, written(4), written(4), real(4), real(4), True, number(0.1),
                        number(1e-5)),
                   case(A, positive(3, learns=False), positive(3, learns=False), real(3), real(3)),
                   case(A, None, None, training=True)],

    # Losses.
    **every("mse_loss l1_loss", case(A, real(5, 3))),
    "F.mse_loss": [case(A, real(5, 3), "sum"), case(A, real(5, 3), "none")],
    "huber_loss": [case(A, real(5, 3), "mean", number(0.7)), case(A, real(5, 3), "none")],
    "smooth_l1_loss": [case(A, real(5, 3), "mean", number(0.7)), case(A, real(5, 3), "none")],
    "binary_cross_entropy": [case(real(5, 3, low=0.1, high=0.9), real(5, 3, low=0.0, high=1.0),
                                  real(3, low=0.5))],
    "binary_cross_entropy_with_logits": [
        case(A, real(5, 3, low=0.0, high=1.0), real(5, 3, low=0.5), "none",
             real(3, low=0.5, learns=False))],
    "kl_div": [case(A, positive(5, 3, high=1.0)), case(A, real(5, 3), "sum", True)],
    "hvd.cross_entropy": [case(A, whole(5, below=3))],
    "cross_entropy": [
        case(A, whole(5, below=3), real(3, low=0.5, learns=False), number(1), "mean", number(0.1)),
        case(A, positive(5, 3), real(3, low=0.5)), case(real(3), whole(below=3)),
        case(real(2, 3, 4), whole(2, 4, below=3), reduction="none")],
    "nll_loss": [case(A, whole(5, below=3), real(3, low=0.5, learns=False), number(1)),
                 case(real(3), whole(below=3)),
                 case(real(2, 3, 4), whole(2, 4, below=3), reduction="none")],

    # Initial values.
    **every("zeros_ ones_", case(written(5, 3))),
    "constant_": [case(written(5, 3), number(2.0))],
    **every("uniform_ normal_", case(written(5, 3), number(0.5), number(1.5))),
    "trunc_normal_": [case(written(5, 3), number(0.0), number(1.0), number(-1.0), number(1.0))],
    **every("orthogonal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_",
            case(written(5, 3), number(1.5))),
}
