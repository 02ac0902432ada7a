"""What layers and losses compute, as functions: ``hvd.nn.functional``, with PyTorch's names."""

from horovod_cpp import _native

adaptive_avg_pool2d = _native.functional.adaptive_avg_pool2d
avg_pool2d = _native.functional.avg_pool2d
batch_norm = _native.functional.batch_norm
binary_cross_entropy = _native.functional.binary_cross_entropy
binary_cross_entropy_with_logits = _native.functional.binary_cross_entropy_with_logits
conv2d = _native.functional.conv2d
cross_entropy = _native.functional.cross_entropy
dropout = _native.functional.dropout
embedding = _native.functional.embedding
gelu = _native.functional.gelu
group_norm = _native.functional.group_norm
huber_loss = _native.functional.huber_loss
kl_div = _native.functional.kl_div
l1_loss = _native.functional.l1_loss
layer_norm = _native.functional.layer_norm
leaky_relu = _native.functional.leaky_relu
linear = _native.functional.linear
log_softmax = _native.functional.log_softmax
max_pool2d = _native.functional.max_pool2d
mse_loss = _native.functional.mse_loss
nll_loss = _native.functional.nll_loss
relu = _native.functional.relu
sigmoid = _native.functional.sigmoid
silu = _native.functional.silu
smooth_l1_loss = _native.functional.smooth_l1_loss
softmax = _native.functional.softmax
tanh = _native.functional.tanh

__all__ = [
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv2d",
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "group_norm",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "relu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "tanh",
]
