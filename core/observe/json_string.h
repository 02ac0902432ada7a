#pragma once

#include <string>
#include <string_view>

namespace hvd::engine {

// `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD, so that the
// result is valid JSON whatever the bytes are.
std::string json_string(std::string_view text);

}  // namespace hvd::engine
