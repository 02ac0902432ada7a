#include <algorithm>

#include "bindings/native/distributed/distributed.h"
#include "core/base/status.h"
#include "core/config/unknown_variables.h"

namespace hvd::python {
namespace {

Tensor tensor_to_compress(const py::handle& object) {
  return py::isinstance<Tensor>(object) ? Input(object).tensor.clone() : copy_to_tensor(object);
}

// A tensor's compressor written in Python: compress(tensor) -> (compressed, context) and
// decompress(compressed, context) -> tensor, as in Horovod. `compressed` is a tensor or a list.
class PythonTensorCompressor final : public TensorCompressor {
 public:
  explicit PythonTensorCompressor(const py::handle& object) : object_(object) {}

  std::vector<Tensor> compress(const Tensor& tensor) override {
    return in_python([&] { return compress_in_python(tensor); });
  }

  void decompress(std::vector<Tensor> reduced, const Tensor& output) override {
    in_python([&] { decompress_in_python(reduced, output); });
  }

 private:
  std::vector<Tensor> compress_in_python(const Tensor& tensor) {
    const auto result = object_.get().attr("compress")(py::cast(tensor));
    if (!py::isinstance<py::tuple>(result) || py::len(result) != 2) {
      throw py::type_error("compress() must return a pair (compressed, context), not " +
                           py::repr(py::type::of(result)).cast<std::string>());
    }
    const auto pair = result.cast<py::tuple>();
    context_ = std::make_shared<SharedObject>(pair[1]);
    const py::object compressed = pair[0];
    is_list_ = py::isinstance<py::list>(compressed) || py::isinstance<py::tuple>(compressed);
    std::vector<Tensor> tensors;
    if (is_list_) {
      for (const py::handle& item : compressed) tensors.push_back(tensor_to_compress(item));
    } else {
      tensors.push_back(tensor_to_compress(compressed));
    }
    return tensors;
  }

  void decompress_in_python(const std::vector<Tensor>& reduced, const Tensor& output) {
    const py::object compressed =
        is_list_ ? py::object(py::cast(reduced)) : py::cast(reduced.front());
    const py::object result = object_.get().attr("decompress")(compressed, context_->get());
    const Tensor tensor = Input(result).tensor;
    if (tensor.shape() != output.shape()) {
      throw InvalidArgumentError("decompress() returned shape " + to_string(tensor.shape()) +
                                 " for a tensor of shape " + to_string(output.shape()));
    }
    Tensor target = output.detach();
    target.copy_(tensor.detach());
  }

  SharedObject object_;
  std::shared_ptr<SharedObject> context_;
  bool is_list_ = false;
};

class PythonCompressor final : public Compressor {
 public:
  explicit PythonCompressor(const py::handle& object)
      : object_(object), name_(py::str(object).cast<std::string>()) {}

  std::string name() const override { return name_; }

  std::shared_ptr<TensorCompressor> for_tensor(const std::string& name, const Shape& shape,
                                               DType dtype) override {
    const py::gil_scoped_acquire gil;
    py::object object = object_.get();
    if (py::hasattr(object, "for_tensor")) {
      object =
          object.attr("for_tensor")(name, py::tuple(py::cast(shape)), std::string(name_of(dtype)));
      if (object.is_none()) return nullptr;
    }
    return std::make_shared<PythonTensorCompressor>(object);
  }

 private:
  SharedObject object_;
  std::string name_;
};

Compression compression_named(const std::string& name) {
  const std::vector<std::string> names = {"none", "fp16", "bf16", "int8", "powersgd"};
  const std::vector<Compression> ways = {Compression::none(), Compression::fp16(),
                                         Compression::bf16(), Compression::int8(),
                                         Compression::powersgd()};
  const std::string wanted = lower_case(name);
  const auto found = std::ranges::find(names, wanted);
  if (found != names.end()) return ways[static_cast<std::size_t>(found - names.begin())];
  throw InvalidArgumentError("compression='" + name +
                             "' is not a compression (none, fp16, bf16, int8, powersgd)" +
                             did_you_mean(wanted, names));
}

}  // namespace

Compression compression_from(const py::handle& object) {
  if (object.is_none()) return Compression::none();
  if (py::isinstance<py::str>(object)) return compression_named(object.cast<std::string>());
  if (py::isinstance<Compression>(object)) return object.cast<Compression>();
  if (py::hasattr(object, "for_tensor") ||
      (py::hasattr(object, "compress") && py::hasattr(object, "decompress"))) {
    return Compression(std::make_shared<PythonCompressor>(object));
  }
  throw py::type_error(
      "compression must be one of hvd.Compression, its name, or have compress() and "
      "decompress(), not " +
      py::repr(object).cast<std::string>());
}

void bind_compression(py::module_& m) {
  auto cls =
      py::class_<Compression>(m, "Compression",
                              R"(How the tensors of an allreduce travel.

Compression.none, Compression.fp16, Compression.bf16: float32 and float64 as they are or as halves;
every addition is made in float32.
Compression.int8: blocks of 256 signed bytes and a scale. A DistributedOptimizer adds what was lost
to the next gradient (error feedback: Karimireddy et al. 2019), a plain allreduce does not.
Compression.powersgd(rank): matrices as a product of two of ``rank`` columns, with error feedback
(Vogels et al., "PowerSGD", 2019).

An argument ``compression`` takes their names too: "fp16", "powersgd" (of rank 2).

All of them work with Sum and Average only; tensors of dtypes that they do not serve travel as they
are. Wherever one of these is taken, so is your own: an object or class with

    compress(tensor) -> (compressed, context)      # a Tensor or array, or a list of them
    decompress(compressed, context) -> tensor      # compressed is what was reduced

or with for_tensor(name, shape, dtype) that returns such an object (or None: as it is) for each
tensor. They run on the thread that submits or waits.)")
          .def_static("powersgd", &Compression::powersgd, py::arg("rank") = 2,
                      "Low-rank products; InvalidArgumentError unless rank > 0.")
          .def_property_readonly("name", &Compression::name, "Its name: \"none\", \"fp16\", ...")
          .def("__repr__", [](const Compression& self) { return "Compression." + self.name(); });
  cls.attr("none") = Compression::none();
  cls.attr("fp16") = Compression::fp16();
  cls.attr("bf16") = Compression::bf16();
  cls.attr("int8") = Compression::int8();
}

}  // namespace hvd::python
