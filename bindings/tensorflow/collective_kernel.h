#pragma once

#include "bindings/tensorflow/tensorflow_api.h"

namespace hvd::tensorflow {

// The kernel of every operation; each instance is made of attributes that registration.cc declares.
void* create_kernel(TF_OpKernelConstruction* construction);
void compute_kernel(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done);
void delete_kernel(void* kernel);

}  // namespace hvd::tensorflow
