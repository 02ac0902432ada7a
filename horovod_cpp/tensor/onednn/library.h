#pragma once

namespace hvd {
namespace isa {

// oneDNN's shared library, opened at the first call and open as long as the process; null where it
// is missing or of another major version than the header.
void* onednn_library();

// A function of the library, or of the OpenMP runtime that came with it; null if there is none.
void* onednn_symbol(const char* name);

// While one lives, oneDNN computes on this thread alone, as all kernels do: a job has a rank for
// each core, and the order of sums does not depend on the number of cores.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  // Whether the library has what this class needs.
  static bool available();

 private:
  const int before_;
};

}  // namespace isa
}  // namespace hvd
