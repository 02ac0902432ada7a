#pragma once

// Everything of hvd::nn.
#include "horovod_cpp/nn/containers.h"
#include "horovod_cpp/nn/functional.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/layers/basic.h"
#include "horovod_cpp/nn/layers/convolution.h"
#include "horovod_cpp/nn/layers/normalization.h"
#include "horovod_cpp/nn/layers/recurrent.h"
#include "horovod_cpp/nn/layers/transformer.h"
#include "horovod_cpp/nn/losses/loss.h"
#include "horovod_cpp/nn/module.h"
