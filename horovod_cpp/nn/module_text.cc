// How modules print.
#include <ostream>

#include "horovod_cpp/nn/module.h"

namespace hvd {
namespace nn {
namespace {

std::string indented(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << to_string(module);
}

}  // namespace nn

std::string to_string(const nn::Module& module) {
  const std::string extra = module.extra_repr();
  if (module.named_children().empty()) return module.class_name() + "(" + extra + ")";
  std::string lines = extra.empty() ? "" : "\n" + extra;
  for (const auto& [name, child] : module.named_children()) {
    lines += "\n(" + (name.empty() ? "module" : name) + "): " + to_string(*child);
  }
  return module.class_name() + "(" + nn::indented(lines) + "\n)";
}

}  // namespace hvd
