#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// What this module uses of TensorFlow's C API (tensorflow/c/{ops,kernels,tf_tensor,tf_status}.h),
// which is the same in all versions from 2.13 on: declared here and looked up when the module is
// loaded, so that one build serves them all.
namespace hvd::tensorflow {

struct TF_Status;
struct TF_Tensor;
struct TF_OpDefinitionBuilder;
struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;
struct TF_StringView {
  const char* data;
  std::size_t len;
};

// Of TF_Code
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kFailedPrecondition = 9,
  kAborted = 10,
  kUnimplemented = 12,
  kInternal = 13,
};

using Create = void* (*)(TF_OpKernelConstruction*);
using ComputeAsync = void (*)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*);
using Delete = void (*)(void*);
using Deallocator = void (*)(void* data, std::size_t bytes, void* arg);

// X(result, name without TF_, arguments)
#define HVD_TENSORFLOW_FUNCTIONS(X)                                                          \
  X(TF_Status*, NewStatus, ())                                                               \
  X(void, DeleteStatus, (TF_Status*))                                                        \
  X(void, SetStatus, (TF_Status*, int code, const char*))                                    \
  X(int, GetCode, (const TF_Status*))                                                        \
  X(const char*, Message, (const TF_Status*))                                                \
  X(TF_Tensor*, NewTensor,                                                                   \
    (int, const std::int64_t*, int, void*, std::size_t, Deallocator, void*))                 \
  X(void, DeleteTensor, (TF_Tensor*))                                                        \
  X(int, TensorType, (const TF_Tensor*))                                                     \
  X(int, NumDims, (const TF_Tensor*))                                                        \
  X(std::int64_t, Dim, (const TF_Tensor*, int))                                              \
  X(void*, TensorData, (const TF_Tensor*))                                                   \
  X(std::size_t, TensorByteSize, (const TF_Tensor*))                                         \
  X(TF_OpDefinitionBuilder*, NewOpDefinitionBuilder, (const char*))                          \
  X(void, RegisterOpDefinition, (TF_OpDefinitionBuilder*, TF_Status*))                       \
  X(void, OpDefinitionBuilderAddAttr, (TF_OpDefinitionBuilder*, const char*))                \
  X(void, OpDefinitionBuilderAddInput, (TF_OpDefinitionBuilder*, const char*))               \
  X(void, OpDefinitionBuilderAddOutput, (TF_OpDefinitionBuilder*, const char*))              \
  X(void, OpDefinitionBuilderSetIsStateful, (TF_OpDefinitionBuilder*, bool))                 \
  X(TF_KernelBuilder*, NewAsyncKernelBuilder,                                                \
    (const char*, const char*, Create, ComputeAsync, Delete))                                \
  X(void, RegisterKernelBuilder, (const char*, TF_KernelBuilder*, TF_Status*))               \
  X(void, OpKernelConstruction_Failure, (TF_OpKernelConstruction*, TF_Status*))              \
  X(TF_StringView, OpKernelConstruction_GetName, (TF_OpKernelConstruction*))                 \
  X(void, OpKernelConstruction_GetAttrSize,                                                  \
    (TF_OpKernelConstruction*, const char*, std::int32_t*, std::int32_t*, TF_Status*))       \
  X(void, OpKernelConstruction_GetAttrInt64,                                                 \
    (TF_OpKernelConstruction*, const char*, std::int64_t*, TF_Status*))                      \
  X(void, OpKernelConstruction_GetAttrString,                                                \
    (TF_OpKernelConstruction*, const char*, char*, std::size_t, TF_Status*))                 \
  X(int, NumInputs, (TF_OpKernelContext*))                                                   \
  X(void, GetInput, (TF_OpKernelContext*, int, TF_Tensor**, TF_Status*))                     \
  X(int, ExpectedOutputDataType, (TF_OpKernelContext*, int))                                 \
  X(TF_Tensor*, ForwardInputOrAllocateOutput,                                                \
    (TF_OpKernelContext*, const int*, int, int, const std::int64_t*, int, int*, TF_Status*)) \
  X(void, SetOutput, (TF_OpKernelContext*, int, const TF_Tensor*, TF_Status*))               \
  X(void, OpKernelContext_Failure, (TF_OpKernelContext*, TF_Status*))

// TF_NewStatus() is called as tf().NewStatus().
struct TensorFlowApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): parts of a declaration
#define HVD_DECLARE(result, name, arguments) result(*name) arguments = nullptr;
  HVD_TENSORFLOW_FUNCTIONS(HVD_DECLARE)
#undef HVD_DECLARE
  // Of the loop that runs the operation; null where TensorFlow does not tell.
  std::int64_t (*GetIterId)(TF_OpKernelContext*) = nullptr;
};

const TensorFlowApi& tf();

// Fills tf(), from the TensorFlow that this process has loaded. What is missing; empty when nothing
// is. Once, before tf() is used.
std::string load_tensorflow_api();

// A TF_Status, ok at first.
class StatusOfTensorFlow {
 public:
  StatusOfTensorFlow() : status_(tf().NewStatus()) {}
  ~StatusOfTensorFlow() { tf().DeleteStatus(status_); }
  StatusOfTensorFlow(const StatusOfTensorFlow&) = delete;
  StatusOfTensorFlow& operator=(const StatusOfTensorFlow&) = delete;

  operator TF_Status*() const { return status_; }
  bool ok() const { return tf().GetCode(status_) == static_cast<int>(Code::kOk); }
  std::string message() const { return tf().Message(status_); }
  void set(Code code, const std::string& message) {
    tf().SetStatus(status_, static_cast<int>(code), message.c_str());
  }

 private:
  TF_Status* const status_;
};

}  // namespace hvd::tensorflow
