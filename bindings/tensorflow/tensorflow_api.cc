#include "bindings/tensorflow/tensorflow_api.h"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

namespace hvd::tensorflow {
namespace {

TensorFlowApi& functions() {
  static TensorFlowApi api;
  return api;
}

// The path of the loaded library that has the C API. Old versions of TensorFlow load it without
// making its symbols global, so that dlsym(RTLD_DEFAULT) would not see them.
std::string loaded_framework() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        const std::string_view name(info->dlpi_name);
        if (name.find("libtensorflow_framework.so") == std::string_view::npos) return 0;
        *static_cast<std::string*>(found) = name;
        return 1;
      },
      &path);
  return path;
}

}  // namespace

const TensorFlowApi& tf() {
  return functions();
}

std::string load_tensorflow_api() {
  const std::string path = loaded_framework();
  if (path.empty()) return "TensorFlow is not loaded in this process";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return std::string("cannot use ") + path + ": " + dlerror();
  std::string missing;
  const auto find = [&]<typename Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr) missing += std::string(missing.empty() ? "" : ", ") + name;
  };
#define HVD_FIND(result, name, arguments) find(functions().name, "TF_" #name);
  HVD_TENSORFLOW_FUNCTIONS(HVD_FIND)
#undef HVD_FIND
  functions().GetIterId =
      reinterpret_cast<decltype(functions().GetIterId)>(dlsym(library, "TF_GetIterId"));
  return missing.empty() ? "" : path + " lacks " + missing;
}

}  // namespace hvd::tensorflow
