#pragma once

#include <memory>
#include <string>

#include "core/base/topology.h"
#include "core/runtime/collective.h"

namespace hvd {

// What the NCCL module offers to a program that links neither NCCL nor CUDA. The module and the
// program must come from one build: they share these classes.
class NcclModule {
 public:
  // "NCCL 2.28.9".
  virtual std::string version() const = 0;
  // "CUDA 13.0, driver 13.0"; a driver that is not there counts as 0.0.
  virtual std::string cuda_version() const = 0;
  // Devices that this process can use.
  virtual int devices() const = 0;
  // What they are called, or CUDA's own text why there are none.
  virtual std::string describe_devices() const = 0;
  // What one rank makes and all pass to make_collective(); it travels over whatever connects them.
  virtual std::string make_id() = 0;
  // Does not wait for the other ranks: the first operation does, while it is polled. Throws
  // UnsupportedError if there is no such device, InvalidArgumentError for a bad id.
  virtual std::unique_ptr<Collective> make_collective(const std::string& id, Rank rank, int size,
                                                      int device) = 0;

 protected:
  ~NcclModule() = default;
};

inline constexpr const char* kNcclModuleFile = "libhvd_nccl.so";
inline constexpr const char* kNcclModuleSymbol = "hvd_nccl_module";
using NcclModuleFunction = NcclModule* (*)();

}  // namespace hvd
