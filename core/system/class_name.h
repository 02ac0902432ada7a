#pragma once

#include <string>
#include <typeinfo>

namespace hvd {

// The C++ class without its namespace ("Linear"): what messages call an object.
std::string class_name_of(const std::type_info& type);

}  // namespace hvd
