#pragma once

#include <cstdio>
#include <string>

#include "core/base/clock.h"

namespace hvd {

// "60 s", for people.
inline std::string seconds_text(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", to_seconds(duration));
  return text;
}

}  // namespace hvd
