#pragma once

// Everything a program needs: #include <horovod_cpp/horovod.h>

#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/data/dataset.h"
#include "horovod_cpp/dist/broadcast.h"
#include "horovod_cpp/dist/collectives.h"
#include "horovod_cpp/dist/distributed_optimizer.h"
#include "horovod_cpp/dist/session.h"
#include "horovod_cpp/nn/module.h"
#include "horovod_cpp/optim/optimizer.h"
#include "horovod_cpp/tensor/tensor.h"
