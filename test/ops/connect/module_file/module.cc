// A module that open_module() may open; HVD_OTHER_BUILD: it is of another one.
#include "core/config/build_identity.h"

extern "C" __attribute__((visibility("default"))) int hvd_test_module() {
  return 42;
}

extern "C" __attribute__((visibility("default"))) const char* hvd_test_build() {
#ifdef HVD_OTHER_BUILD
  return "0.0.9-000000000000";
#else
  return hvd::build_identity();
#endif
}
