// Declares the operations to TensorFlow while it loads this library (tf.load_op_library).
#include <cstdint>
#include <initializer_list>
#include <string>

#include "bindings/tensorflow/collective_kernel.h"
#include "bindings/tensorflow/tensorflow_api.h"
#include "core/base/collective_kind.h"

namespace hvd::tensorflow {
namespace {

struct Operation {
  const char* type;
  std::string kind;  // the attribute of this name, which tells the kernel what to do
  std::initializer_list<const char*> attributes, inputs, outputs;
};

std::string kind_of(CollectiveKind kind) {
  return "kind: int = " + std::to_string(static_cast<int>(kind));
}

std::string register_one(const Operation& operation) {
  StatusOfTensorFlow status;
  TF_OpDefinitionBuilder* const op = tf().NewOpDefinitionBuilder(operation.type);
  for (const char* each : operation.attributes) tf().OpDefinitionBuilderAddAttr(op, each);
  for (const char* each :
       {operation.kind.c_str(), "tensor_name: string = ''", "process_set: int = 0"}) {
    tf().OpDefinitionBuilderAddAttr(op, each);
  }
  for (const char* each : operation.inputs) tf().OpDefinitionBuilderAddInput(op, each);
  for (const char* each : operation.outputs) tf().OpDefinitionBuilderAddOutput(op, each);
  // Else TensorFlow merges equal calls and folds those of constants, on some ranks alone.
  tf().OpDefinitionBuilderSetIsStateful(op, true);
  tf().RegisterOpDefinition(op, status);
  if (!status.ok()) return status.message();
  TF_KernelBuilder* const kernel = tf().NewAsyncKernelBuilder(operation.type, "CPU", &create_kernel,
                                                              &compute_kernel, &delete_kernel);
  tf().RegisterKernelBuilder(operation.type, kernel, status);
  return status.ok() ? "" : status.message();
}

std::string register_all() {
  using Kind = CollectiveKind;
  constexpr const char *kTypeList = "T: list(type)", *kTensors = "tensors: T",
                       *kResults = "results: T";
  constexpr const char *kOp = "reduce_op: int", *kPrescale = "prescale_factor: string = '1'",
                       *kPostscale = "postscale_factor: string = '1'";
  const Operation operations[] = {
      {"HvdAllreduce",
       kind_of(Kind::kAllreduce),
       {kTypeList, kOp, kPrescale, kPostscale, "wire: int = 0", "note: string = ''"},
       {kTensors},
       {kResults}},
      {"HvdReducescatter",
       kind_of(Kind::kReducescatter),
       {kTypeList, kOp, kPrescale, kPostscale},
       {kTensors},
       {kResults}},
      {"HvdAllgather", kind_of(Kind::kAllgather), {kTypeList}, {kTensors}, {kResults}},
      {"HvdBroadcast",
       kind_of(Kind::kBroadcast),
       {kTypeList, "root_rank: int"},
       {kTensors},
       {kResults}},
      {"HvdAlltoall",
       kind_of(Kind::kAlltoall),
       {"T: type"},
       {"tensor: T", "splits: int64"},
       {"result: T", "received_splits: int64"}},
      {"HvdBarrier", kind_of(Kind::kBarrier), {}, {}, {}},
      {"HvdJoin", kind_of(Kind::kJoin), {}, {}, {"last_rank: int32"}},
      {"HvdQuery", "kind: int", {}, {}, {"answer: int32"}},
  };
  for (const Operation& each : operations) {
    if (const std::string error = register_one(each); !error.empty()) return error;
  }
  return "";
}

const std::string load_error = [] {
  const std::string missing = load_tensorflow_api();
  return missing.empty() ? register_all() : missing;
}();

}  // namespace

// For Python, by ctypes: why no operation was registered; empty when all were.
extern "C" __attribute__((visibility("default"))) const char* hvd_tensorflow_error() {
  return load_error.c_str();
}

}  // namespace hvd::tensorflow
