#pragma once

// Everything a program needs: #include <horovod_cpp/horovod.h>

#include "horovod_cpp/autograd/functions.h"
#include "horovod_cpp/autograd/grad.h"
#include "horovod_cpp/autograd/grad_mode.h"
#include "horovod_cpp/autograd/gradcheck.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/idx.h"
#include "horovod_cpp/data/image_dataset.h"
#include "horovod_cpp/data/sampler.h"
#include "horovod_cpp/dist/broadcast.h"
#include "horovod_cpp/dist/collectives.h"
#include "horovod_cpp/dist/distributed_optimizer.h"
#include "horovod_cpp/dist/session.h"
#include "horovod_cpp/io/safetensors.h"
#include "horovod_cpp/nn/layers.h"
#include "horovod_cpp/optim/adam.h"
#include "horovod_cpp/optim/sgd.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/tensor.h"
