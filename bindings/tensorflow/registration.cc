// Declares the operations to TensorFlow while it loads this library (tf.load_op_library).
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "bindings/tensorflow/collective_kernel.h"
#include "bindings/tensorflow/tensorflow_api.h"
#include "core/base/collective_kind.h"

namespace hvd::tensorflow {
namespace {

constexpr std::size_t kUnknownSize = static_cast<std::size_t>(-1);

class ShapeOfTensorFlow {
 public:
  explicit ShapeOfTensorFlow(TF_ShapeHandle* shape = tf().NewShapeHandle()) : shape_(shape) {}
  ~ShapeOfTensorFlow() { tf().DeleteShapeHandle(shape_); }
  ShapeOfTensorFlow(const ShapeOfTensorFlow&) = delete;
  ShapeOfTensorFlow& operator=(const ShapeOfTensorFlow&) = delete;
  operator TF_ShapeHandle*() const { return shape_; }

 private:
  TF_ShapeHandle* const shape_;
};

bool ok(const TF_Status* status) {
  return tf().GetCode(status) == static_cast<int>(Code::kOk);
}

// Each output is as the input.
void same_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  const auto count = static_cast<int>(tf().ShapeInferenceContextNumInputs(context));
  for (int i = 0; i < count && ok(status); ++i) {
    const ShapeOfTensorFlow shape;
    tf().ShapeInferenceContextGetInput(context, i, shape, status);
    if (ok(status)) tf().ShapeInferenceContextSetOutput(context, i, shape, status);
  }
}

// ... but has another number of rows.
void set_other_rows(TF_ShapeInferenceContext* context, int i, TF_Status* status) {
  const ShapeOfTensorFlow shape, row, result;
  const ShapeOfTensorFlow rows(tf().ShapeInferenceContextVectorFromSize(context, kUnknownSize));
  tf().ShapeInferenceContextGetInput(context, i, shape, status);
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  if (ok(status)) tf().ShapeInferenceContextSubshape(context, shape, 1, kEnd, row, status);
  if (ok(status)) {
    tf().ShapeInferenceContextConcatenateShapes(context, rows, row, result, status);
  }
  if (ok(status)) tf().ShapeInferenceContextSetOutput(context, i, result, status);
}

void other_rows(TF_ShapeInferenceContext* context, TF_Status* status) {
  const auto count = static_cast<int>(tf().ShapeInferenceContextNumInputs(context));
  for (int i = 0; i < count && ok(status); ++i) set_other_rows(context, i, status);
}

void alltoall_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  set_other_rows(context, 0, status);
  const ShapeOfTensorFlow splits(tf().ShapeInferenceContextVectorFromSize(context, kUnknownSize));
  if (ok(status)) tf().ShapeInferenceContextSetOutput(context, 1, splits, status);
}

void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  const ShapeOfTensorFlow scalar(tf().ShapeInferenceContextScalar(context));
  tf().ShapeInferenceContextSetOutput(context, 0, scalar, status);
}

struct Operation {
  const char* type;
  std::string kind;  // the attribute of this name, which tells the kernel what to do
  std::initializer_list<const char*> attributes, inputs, outputs;
  ShapeFunction shapes;
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
  tf().OpDefinitionBuilderSetShapeInferenceFunction(op, operation.shapes);
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
       {kTypeList, kOp, kPrescale, kPostscale, "wire: int = 0"},
       {kTensors},
       {kResults},
       &same_shapes},
      {"HvdReducescatter",
       kind_of(Kind::kReducescatter),
       {kTypeList, kOp, kPrescale, kPostscale},
       {kTensors},
       {kResults},
       &other_rows},
      {"HvdAllgather", kind_of(Kind::kAllgather), {kTypeList}, {kTensors}, {kResults}, &other_rows},
      {"HvdBroadcast",
       kind_of(Kind::kBroadcast),
       {kTypeList, "root_rank: int"},
       {kTensors},
       {kResults},
       &same_shapes},
      {"HvdAlltoall",
       kind_of(Kind::kAlltoall),
       {"T: type"},
       {"tensor: T", "splits: int64"},
       {"result: T", "received_splits: int64"},
       &alltoall_shapes},
      {"HvdBarrier", kind_of(Kind::kBarrier), {}, {}, {}, &same_shapes},
      {"HvdJoin", kind_of(Kind::kJoin), {}, {}, {"last_rank: int32"}, &scalar_shape},
      {"HvdQuery", "kind: int", {}, {}, {"answer: int32"}, &scalar_shape},
  };
  for (const Operation& each : operations) {
    if (const std::string error = register_one(each); !error.empty()) return error;
  }
  return "";
}

std::string& load_error() {
  static std::string error;
  return error;
}

const bool registered = [] {
  load_error() = load_tensorflow_api();
  if (load_error().empty()) load_error() = register_all();
  return load_error().empty();
}();

}  // namespace

// For Python, by ctypes: why no operation was registered; empty when all were.
extern "C" __attribute__((visibility("default"))) const char* hvd_tensorflow_error() {
  return load_error().c_str();
}

// Hands over the table; false if it is of another version of this package.
extern "C" __attribute__((visibility("default"))) bool hvd_tensorflow_connect(
    const python::CollectiveTable* table) {
  if (table->version != python::kCollectiveTableVersion) return false;
  use_table(table);
  return true;
}

}  // namespace hvd::tensorflow
