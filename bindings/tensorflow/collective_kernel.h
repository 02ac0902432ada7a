#pragma once

#include "bindings/native/distributed/collective_table.h"
#include "bindings/tensorflow/tensorflow_api.h"
#include "core/base/collective_kind.h"

namespace hvd::tensorflow {

// The table that kernels call: null until Python has handed it over.
void use_table(const python::CollectiveTable* table);

// The three functions of the kernel of an operation; each instance of it is made of its attributes,
// which registration.cc declares.
template <CollectiveKind kKind>
void* create_kernel(TF_OpKernelConstruction* construction);
void compute_kernel(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done);
void delete_kernel(void* kernel);

void* create_kernel_of(CollectiveKind kind, TF_OpKernelConstruction* construction);

template <CollectiveKind kKind>
void* create_kernel(TF_OpKernelConstruction* construction) {
  return create_kernel_of(kKind, construction);
}

}  // namespace hvd::tensorflow
