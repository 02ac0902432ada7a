#pragma once

// Everything of hvd::nn.
#include "horovod_cpp/nn/activation.h"
#include "horovod_cpp/nn/batch_norm.h"
#include "horovod_cpp/nn/conv1d.h"
#include "horovod_cpp/nn/conv2d.h"
#include "horovod_cpp/nn/conv_transpose2d.h"
#include "horovod_cpp/nn/dropout.h"
#include "horovod_cpp/nn/flatten.h"
#include "horovod_cpp/nn/init.h"
#include "horovod_cpp/nn/linear.h"
#include "horovod_cpp/nn/loss.h"
#include "horovod_cpp/nn/module.h"
#include "horovod_cpp/nn/pooling.h"
#include "horovod_cpp/nn/sequential.h"
