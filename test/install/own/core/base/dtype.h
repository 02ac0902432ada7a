#pragma once

// The consumer's own; horovod_cpp has a header of this name, too.
inline const char* program_name() {
  return "consumer";
}
