#include "core/observe/json_string.h"

#include <nlohmann/json.hpp>

namespace hvd::engine {

std::string json_string(std::string_view text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace hvd::engine
