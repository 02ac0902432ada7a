"""The model zoo: image classifiers with torchvision's parameter names and initialisation."""

from horovod_cpp._native import *
from horovod_cpp.native_names import keep_listed as _keep_listed
from horovod_cpp.nn.copying import remembering as _remembering

__all__ = [
    "VGG", "AlexNet", "GoogLeNet", "GoogLeNetOutputs", "Inception3", "InceptionOutputs", "ResNet",
    "alexnet", "googlenet", "inception_v3", "resnet18", "resnet34", "resnet50", "vgg11",
    "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]
_keep_listed(globals())
for _name in filter(str.islower, __all__):  # what makes a model, not a class
    globals()[_name] = _remembering(globals()[_name])
