#pragma once

#include "bindings/native/distributed/collective_table.h"
#include "bindings/tensorflow/tensorflow_api.h"

namespace hvd::tensorflow {

// The table that kernels call: null until Python has handed it over.
void use_table(const python::CollectiveTable* table);

// The three functions of the kernel of every operation; each instance is made of its attributes,
// which registration.cc declares.
void* create_kernel(TF_OpKernelConstruction* construction);
void compute_kernel(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done);
void delete_kernel(void* kernel);

}  // namespace hvd::tensorflow
