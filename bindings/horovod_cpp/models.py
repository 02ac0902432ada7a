"""The model zoo: image classifiers with torchvision's parameter names and initialisation."""

from horovod_cpp import _native
from horovod_cpp._native import (
    VGG,
    AlexNet,
    GoogLeNet,
    GoogLeNetOutputs,
    Inception3,
    InceptionOutputs,
    ResNet,
)
from horovod_cpp.nn.copying import remembering as _remembering

alexnet = _remembering(_native.alexnet)
googlenet = _remembering(_native.googlenet)
inception_v3 = _remembering(_native.inception_v3)
resnet18 = _remembering(_native.resnet18)
resnet34 = _remembering(_native.resnet34)
resnet50 = _remembering(_native.resnet50)
vgg11 = _remembering(_native.vgg11)
vgg11_bn = _remembering(_native.vgg11_bn)
vgg13 = _remembering(_native.vgg13)
vgg13_bn = _remembering(_native.vgg13_bn)
vgg16 = _remembering(_native.vgg16)
vgg16_bn = _remembering(_native.vgg16_bn)
vgg19 = _remembering(_native.vgg19)
vgg19_bn = _remembering(_native.vgg19_bn)

__all__ = [
    "VGG", "AlexNet", "GoogLeNet", "GoogLeNetOutputs", "Inception3", "InceptionOutputs", "ResNet",
    "alexnet", "googlenet", "inception_v3", "resnet18", "resnet34", "resnet50", "vgg11",
    "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]
