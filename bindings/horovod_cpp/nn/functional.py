"""What layers and losses compute, as functions: ``hvd.nn.functional``, with PyTorch's names."""

from horovod_cpp._native._functional import *

__all__ = [
    "adaptive_avg_pool2d", "avg_pool2d", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "conv1d", "conv2d", "conv_transpose2d", "cross_entropy",
    "dropout", "embedding", "gelu", "group_norm", "huber_loss", "kl_div", "l1_loss", "layer_norm",
    "leaky_relu", "linear", "log_softmax", "max_pool2d", "mse_loss", "nll_loss", "relu", "sigmoid",
    "silu", "smooth_l1_loss", "softmax", "tanh",
]
