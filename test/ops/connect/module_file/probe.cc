// Prints what open_module() says of libhvd_test.so.
#include <cstdio>

#include "ops/connect/libraries.h"

int main() {
  const hvd::engine::ModuleFile file =
      hvd::engine::open_module({"libhvd_test.so", "hvd_test_module", "hvd_test_build", "make one"});
  const int answer = file.function == nullptr ? 0 : reinterpret_cast<int (*)()>(file.function)();
  std::printf("%d %s\n", answer, file.detail.c_str());
}
