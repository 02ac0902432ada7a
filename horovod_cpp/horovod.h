#pragma once

#if __cplusplus < 202002L
#error "horovod_cpp needs C++20: compile with -std=c++20, or set CMAKE_CXX_STANDARD to 20"
#endif

// Everything a program needs: #include <horovod_cpp/horovod.h>

#include "horovod_cpp/autograd/engine/engine.h"
#include "horovod_cpp/autograd/engine/grad.h"
#include "horovod_cpp/autograd/function.h"
#include "horovod_cpp/autograd/functions/functions.h"
#include "horovod_cpp/autograd/modes.h"
#include "horovod_cpp/autograd/row_gradient.h"
#include "horovod_cpp/data/data_loader.h"
#include "horovod_cpp/data/datasets.h"
#include "horovod_cpp/data/image_file.h"
#include "horovod_cpp/data/sampler.h"
#include "horovod_cpp/data/transforms.h"
#include "horovod_cpp/distributed/collectives/broadcast.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/data_parallel.h"
#include "horovod_cpp/distributed/distributed_data_parallel.h"
#include "horovod_cpp/distributed/gradients/distributed_optimizer.h"
#include "horovod_cpp/distributed/session/rank_zero_section.h"
#include "horovod_cpp/distributed/session/session.h"
#include "horovod_cpp/distributed/sync_batch_norm.h"
#include "horovod_cpp/io/checkpoint.h"
#include "horovod_cpp/io/safetensors.h"
#include "horovod_cpp/nn/layers/layers.h"
#include "horovod_cpp/nn/models/models.h"
#include "horovod_cpp/optim/clip_grad_norm.h"
#include "horovod_cpp/optim/lr_scheduler.h"
#include "horovod_cpp/optim/optimizers.h"
#include "horovod_cpp/optim/rule_optimizer.h"
#include "horovod_cpp/tensor/creation.h"
#include "horovod_cpp/tensor/random.h"
#include "horovod_cpp/tensor/tensor.h"
