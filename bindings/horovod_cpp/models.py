"""The model zoo: image classifiers with torchvision's parameter names and initialisation."""

from horovod_cpp._native import (
    VGG,
    AlexNet,
    GoogLeNet,
    GoogLeNetOutputs,
    Inception3,
    InceptionOutputs,
    ResNet,
    alexnet,
    googlenet,
    inception_v3,
    resnet18,
    resnet34,
    resnet50,
    vgg11,
    vgg11_bn,
    vgg13,
    vgg13_bn,
    vgg16,
    vgg16_bn,
    vgg19,
    vgg19_bn,
)

__all__ = [
    "VGG", "AlexNet", "GoogLeNet", "GoogLeNetOutputs", "Inception3", "InceptionOutputs", "ResNet",
    "alexnet", "googlenet", "inception_v3", "resnet18", "resnet34", "resnet50", "vgg11",
    "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]
