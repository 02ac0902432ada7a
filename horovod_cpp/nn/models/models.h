#pragma once

// Every model of hvd::models.
#include "horovod_cpp/nn/models/alexnet.h"
#include "horovod_cpp/nn/models/googlenet.h"
#include "horovod_cpp/nn/models/inception.h"
#include "horovod_cpp/nn/models/resnet.h"
#include "horovod_cpp/nn/models/vgg.h"
