#pragma once

// Every model of hvd::models.
#include "horovod_cpp/nn/models/vgg.h"
