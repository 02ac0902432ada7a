#include "bindings/tensorflow/collective_kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/native/distributed/collective_table.h"
#include "core/base/collective_kind.h"
#include "core/base/dtype.h"
#include "core/base/status.h"

namespace hvd::tensorflow {
namespace {

using python::TableCall;
using python::TableResult;
using python::TableTensor;
using Done = std::function<void()>;

std::atomic<const python::CollectiveTable*> used_table{nullptr};  // until Python hands it over

// The attributes of one operation in a graph, or of all alike that are called eagerly.
struct Kernel {
  std::string name, note;  // the note stands behind the text of a mismatch
  TableCall call;          // without name and tensors
};

// One execution of a kernel.
struct Execution {
  TF_OpKernelContext* context;
  const Kernel& kernel;
  Done done;
};

// TF_DataType of each DType.
constexpr std::array<int, kDTypeCount> kTypes = {4, 3, 9, 19, 14, 1, 2, 6, 17, 5, 10, 8, 18};

// The engine has no such type.
std::string name_of_other(int type) {
  switch (type) {  // of TF_DataType, too
    case 7:
      return "tf.string";
    case 22:
      return "tf.uint32";
    case 23:
      return "tf.uint64";
    default:
      return "number " + std::to_string(type);
  }
}

int dtype_of(int type) {
  const auto* const found = std::ranges::find(kTypes, type);
  return found == kTypes.end() ? -1 : static_cast<int>(found - kTypes.begin());
}

struct ErrorClass {
  StatusCode status;
  Code code;  // by which Python finds our exception, see errors.py
  // What may be retried in a new job says so, as Horovod's errors do.
  const char* prefix = "";
};
constexpr std::array<ErrorClass, 6> kErrors = {{
    {StatusCode::kInvalidArgument, Code::kInvalidArgument},
    {StatusCode::kMismatch, Code::kFailedPrecondition},
    {StatusCode::kUnsupported, Code::kUnimplemented},
    {StatusCode::kStalled, Code::kDeadlineExceeded, "HorovodInternalError: "},
    // Not "unavailable", of which a tf.function makes "internal".
    {StatusCode::kTransport, Code::kAborted, "HorovodInternalError: "},
    {StatusCode::kAborted, Code::kCancelled, "HorovodInternalError: "},
}};

void fail(TF_OpKernelContext* context, StatusCode code, const std::string& message) {
  StatusOfTensorFlow status;
  const auto* const found = std::ranges::find(kErrors, code, &ErrorClass::status);
  const bool known = found != kErrors.end();
  status.set(known ? found->code : Code::kInternal, known ? found->prefix + message : message);
  tf().OpKernelContext_Failure(context, status);
}

std::string text_of(TF_OpKernelConstruction* construction, const char* attribute,
                    TF_Status* status) {
  std::int32_t items = 0, bytes = 0;
  tf().OpKernelConstruction_GetAttrSize(construction, attribute, &items, &bytes, status);
  std::string text(static_cast<std::size_t>(bytes > 0 ? bytes : 0), '\0');
  if (text.empty()) return text;
  tf().OpKernelConstruction_GetAttrString(construction, attribute, text.data(), text.size(),
                                          status);
  return text;
}

// The name of a node in a graph; "" of what is called eagerly: as its type, and in no scope.
std::string name_in_graph(TF_OpKernelConstruction* construction) {
  const TF_StringView node = tf().OpKernelConstruction_GetName(construction);
  const std::string name(node.data, node.len);
  return name.starts_with("Hvd") && name.find('/') == std::string::npos ? std::string() : name;
}

void read_attributes(TF_OpKernelConstruction* construction, Kernel& kernel, TF_Status* status) {
  const auto number = [&](const char* attribute, auto& value) {
    std::int64_t given = 0;
    tf().OpKernelConstruction_GetAttrInt64(construction, attribute, &given, status);
    value = static_cast<std::remove_reference_t<decltype(value)>>(given);
  };
  const auto factor = [&](const char* attribute, double& value) {  // attributes have no float64
    const std::string text = text_of(construction, attribute, status);
    std::from_chars(text.data(), text.data() + text.size(), value);  // in every locale
  };
  TableCall& call = kernel.call;
  const std::string node = name_in_graph(construction);
  kernel.name = text_of(construction, "tensor_name", status);
  // Nodes run in any order; eager calls in the program's, and are numbered.
  if (kernel.name.empty()) kernel.name = node;
  number("kind", call.kind);
  number("process_set", call.process_set);
  if (call.kind >= python::kFirstTableQuery) return;
  const auto kind = static_cast<CollectiveKind>(call.kind);
  if (kind == CollectiveKind::kBroadcast) number("root_rank", call.root);
  if (!reduces(kind)) return;
  number("reduce_op", call.op);
  factor("prescale_factor", call.prescale);
  factor("postscale_factor", call.postscale);
  if (kind != CollectiveKind::kAllreduce) return;
  number("wire", call.wire);
  kernel.note = text_of(construction, "note", status);
  call.with_outputs = !node.empty();  // an eager call's inputs are always its caller's too
}

// TensorFlow passes the address of a std::function that ends with the calling function (a mistake
// in its C API), so it is moved to where it lives as long as the call. Whether it is one is seen
// from the functions of its type, which must be TensorFlow's: the first time, so that a version
// that does otherwise is an error instead of a crash.
bool take(TF_AsyncOpKernelDoneCallback* from, Done& done) {
  static_assert(sizeof(Done) == 4 * sizeof(void*));
  static const bool known = [from] {
    void* parts[4];  // two words of state, manager, invoker
    std::memcpy(parts, static_cast<const void*>(from), sizeof parts);
    Dl_info manager{}, invoker{};
    return parts[2] != nullptr && parts[3] != nullptr && dladdr(parts[2], &manager) != 0 &&
           dladdr(parts[3], &invoker) != 0 &&
           std::strstr(manager.dli_fname, "libtensorflow") != nullptr &&
           std::strstr(invoker.dli_fname, "libtensorflow") != nullptr;
  }();
  if (known) done = std::move(*reinterpret_cast<Done*>(from));
  return known;
}

// The iterations of a loop run beside each other where they can, by default ten of them, and in any
// order: an operation's calls in those need names of their own. Few, so that all are soon known.
std::string name_in_loop(const std::string& name, TF_OpKernelContext* context) {
  constexpr std::int64_t kBesideEachOther = 16;
  if (name.empty() || tf().GetIterId == nullptr) return name;
  const std::int64_t iteration = tf().GetIterId(context) % kBesideEachOther;
  return iteration == 0 ? name : name + ".iteration" + std::to_string(iteration);
}

// What an execution reads and, with_outputs, TensorFlow's memory for the results: owns the tensors
// until they are taken.
struct Tensors {
  Tensors(TF_OpKernelContext* context, bool with_outputs) {
    const int count = tf().NumInputs(context);
    for (int i = 0; i < count && error.ok(); ++i) {
      if (with_outputs) add_output(context, i);
      add_input(context, i);
    }
  }
  ~Tensors() {
    for (const TableTensor& each : tensors) each.drop(each.owner);
  }
  void add_input(TF_OpKernelContext* context, int index) {
    StatusOfTensorFlow status;
    TF_Tensor* tensor = nullptr;
    tf().GetInput(context, index, &tensor, status);
    add(tensor, status);
  }
  // In the memory of the input, if nothing holds that any more; nor do we, then.
  void add_output(TF_OpKernelContext* context, int index) {
    add_input(context, index);
    if (!error.ok()) return;
    const TableTensor input = tensors.back();
    tensors.pop_back();
    input.drop(input.owner);
    StatusOfTensorFlow status;
    int from = 0;
    add(tf().ForwardInputOrAllocateOutput(context, &index, 1, index, input.shape,
                                          static_cast<int>(input.axes), &from, status),
        status);
  }
  void add(TF_Tensor* tensor, const StatusOfTensorFlow& status) {
    if (!status.ok()) {
      error = {StatusCode::kTransport, status.message()};  // out of memory, as of a new result
      return;
    }
    std::vector<std::int64_t>& shape = shapes.emplace_back();
    for (int axis = 0; axis < tf().NumDims(tensor); ++axis) {
      shape.push_back(tf().Dim(tensor, axis));
    }
    const int type = tf().TensorType(tensor);
    const auto drop = [](void* owner) { tf().DeleteTensor(static_cast<TF_Tensor*>(owner)); };
    tensors.push_back({tf().TensorData(tensor), tf().TensorByteSize(tensor), shape.data(),
                       shape.size(), dtype_of(type), tensor, drop});
    if (dtype_of(type) < 0) {
      error = {StatusCode::kInvalidArgument,
               "ranks cannot communicate tensors of TensorFlow's data type " + name_of_other(type)};
    }
  }

  std::deque<std::vector<std::int64_t>> shapes;  // which stay where they are
  std::vector<TableTensor> tensors;
  Status error;
};

void set_output(TF_OpKernelContext* context, int index, const TableTensor& result) {
  const int type = tf().ExpectedOutputDataType(context, index);
  const auto drop = [](void*, std::size_t, void* arg) {
    const std::unique_ptr<TableTensor> tensor(static_cast<TableTensor*>(arg));
    tensor->drop(tensor->owner);
  };
  StatusOfTensorFlow status;
  TF_Tensor* const tensor =
      tf().NewTensor(type, result.shape, static_cast<int>(result.axes), result.data, result.bytes,
                     drop, new TableTensor(result));
  tf().SetOutput(context, index, tensor, status);
  tf().DeleteTensor(tensor);
  if (!status.ok()) tf().OpKernelContext_Failure(context, status);
}

void finish(void* context, const TableResult& result) {
  const std::unique_ptr<Execution> execution(static_cast<Execution*>(context));
  const auto code = static_cast<StatusCode>(result.status);
  const std::string& note = code == StatusCode::kMismatch ? execution->kernel.note : "";
  if (code != StatusCode::kOk) fail(execution->context, code, result.message + note);
  for (std::size_t i = 0; i < result.count; ++i) {
    set_output(execution->context, static_cast<int>(i), result.tensors[i]);
  }
  execution->done();
}

}  // namespace

void* create_kernel(TF_OpKernelConstruction* construction) {
  auto kernel = std::make_unique<Kernel>();
  StatusOfTensorFlow status;
  read_attributes(construction, *kernel, status);
  if (!status.ok()) tf().OpKernelConstruction_Failure(construction, status);
  return kernel.release();
}

void delete_kernel(void* kernel) {
  delete static_cast<Kernel*>(kernel);
}

void compute_kernel(void* kernel_of_tf, TF_OpKernelContext* context,
                    TF_AsyncOpKernelDoneCallback* done) {
  const auto& kernel = *static_cast<const Kernel*>(kernel_of_tf);
  auto execution = std::make_unique<Execution>(Execution{context, kernel, {}});
  if (!take(done, execution->done)) {
    fail(context, StatusCode::kUnsupported,
         "this version of TensorFlow is not supported yet: it ends "
         "asynchronous operations in a way that horovod_cpp does not know");
    (*reinterpret_cast<Done*>(done))();
    return;
  }
  Tensors given(context, kernel.call.with_outputs);
  const python::CollectiveTable* const table = used_table;
  if (table == nullptr)
    given.error = {StatusCode::kInvalidArgument, "import horovod_cpp.tensorflow first"};
  if (!given.error.ok()) {
    fail(context, given.error.code(), given.error.message());
    execution->done();
    return;
  }
  const std::string name = name_in_loop(kernel.name, context);
  const auto tensors = std::exchange(given.tensors, {});  // the table drops them
  TableCall call = kernel.call;
  call.name = name.c_str();
  call.tensors = tensors.data();
  call.count = tensors.size();
  table->start(call, &finish, execution.release());
}

// Hands over the table; false if it is of another version of this package.
extern "C" __attribute__((visibility("default"))) bool hvd_tensorflow_connect(
    const python::CollectiveTable* table) {
  if (table->version != python::kCollectiveTableVersion) return false;
  used_table = table;
  return true;
}

}  // namespace hvd::tensorflow
