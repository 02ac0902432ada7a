#pragma once

#include <memory>
#include <string>

#include "core/base/clock.h"
#include "core/base/topology.h"
#include "core/ports/collective.h"
#include "ops/cuda/module_memory.h"
#include "ops/cuda/module_streams.h"

namespace hvd::engine {

// Where a rank stands among those that use NCCL, and how long things may take (zero = forever).
struct NcclPlace {
  Rank rank = 0;
  int size = 1;
  int device = 0;
  Duration connect_limit = Duration::zero();    // until all ranks are connected
  Duration operation_limit = Duration::zero();  // until the device is done with an operation
};

// What the NCCL module offers to a program that links neither NCCL nor CUDA. The module and the
// program share these classes, so that they must come from one build, which open_module() checks.
class NcclModule {
 public:
  // Whether a usable NCCL was found; `nccl_detail` says which and where, or why not.
  virtual bool has_nccl() const = 0;
  virtual std::string nccl_detail() const = 0;
  // "CUDA 13.0, driver 13.0"; a driver that is not there counts as 0.0.
  virtual std::string cuda_version() const = 0;
  // Devices that this process can use.
  virtual int devices() const = 0;
  // What they are called, or CUDA's own text why there are none.
  virtual std::string describe_devices() const = 0;
  // What tells one device from all others: "0000:3b:00.0, GPU-...". Throws UnsupportedError if
  // there is no such device.
  virtual std::string device_identity(int device) const = 0;
  // What one rank makes and all pass to make_collective(); it travels over whatever connects them.
  // Throws UnsupportedError without NCCL.
  virtual std::string make_id() = 0;
  // Does not wait for the other ranks: the first operation does, while it is polled. Throws
  // UnsupportedError without NCCL or such a device, InvalidArgumentError for a bad id.
  virtual std::unique_ptr<Collective> make_collective(const std::string& id,
                                                      const NcclPlace& place) = 0;
  // By way of `host`, a collective of host memory with the same ranks that has no other user; ranks
  // may share a device, and NCCL is not asked. Throws UnsupportedError if there is no such device.
  virtual std::unique_ptr<Collective> make_staged_collective(std::unique_ptr<Collective> host,
                                                             const NcclPlace& place) = 0;
  // For ranks of one host, which may share a device: they read each other's memory. What that does
  // not do goes by way of `host`. Both collectives are of host memory, have the same ranks and
  // serve nothing else; `handshakes` carries a few numbers for each operation. The ranks connect
  // with the first operation; where CUDA does not let them, all go by way of `host` with one
  // warning. Throws UnsupportedError if there is no such device.
  virtual std::unique_ptr<Collective> make_ipc_collective(std::unique_ptr<Collective> host,
                                                          std::unique_ptr<Collective> handshakes,
                                                          const NcclPlace& place) = 0;
  // Memory of the devices, for tensors of our own. Lives as long as the process.
  virtual DeviceMemory& memory() = 0;
  // For those who hand over memory; lives as long as the process.
  virtual CudaStreams& streams() = 0;

 protected:
  ~NcclModule() = default;
};

inline constexpr const char* kNcclModuleFile = "libhvd_nccl.so";
inline constexpr const char* kNcclModuleSymbol = "hvd_nccl_module";
inline constexpr const char* kNcclModuleBuild = "hvd_nccl_build";  // gives build_identity()
using NcclModuleFunction = NcclModule* (*)();

}  // namespace hvd::engine
