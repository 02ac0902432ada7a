#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/ports/collective.h"
#include "core/ports/control_plane.h"
#include "core/ports/rendezvous.h"
#include "core/system/interruptible_waits.h"

namespace hvd::engine {

// What the MPI module offers to a program that does not link MPI. The module and the program share
// these classes, so that they must come from one build, which open_module() checks.

// Duplicated communicators over all ranks; what is made from it shares them.
class MpiLink : public Rendezvous {
 public:
  // MPI_THREAD_MULTIPLE was granted.
  virtual bool threads_supported() const noexcept = 0;
  // For messages to `peers`.
  virtual std::unique_ptr<ControlPlane> make_control_plane(const Placement& placement,
                                                           std::vector<Rank> peers) = 0;
  virtual std::unique_ptr<Collective> make_collective() = 0;
};

class MpiModule {
 public:
  // "Open MPI v4.1.4, ..."; before connect() too.
  virtual std::string version() const = 0;
  // Initialises MPI if the program has not; `serialized`: for calls from one thread at a time only
  // (then the program makes none itself). Collective; throws StalledError at the deadline, and
  // UnsupportedError if MPI was finalized. `look`: InterruptibleWaits::look of the program, since
  // the module has its own.
  virtual std::unique_ptr<MpiLink> connect(TimePoint deadline, bool serialized,
                                           InterruptibleWaits::Check look) = 0;
  // A job that it connected has ended; `in_error`: other than in order. MPI_Finalize would wait for
  // ranks that are gone or hang, so it is left out unless a later job ends in order.
  virtual void job_ended(bool in_error) noexcept = 0;
  // The module has its own log.
  virtual void set_log_rank(Rank rank) = 0;

 protected:
  ~MpiModule() = default;
};

inline constexpr const char* kMpiModuleFile = "libhvd_mpi.so";
inline constexpr const char* kMpiModuleSymbol = "hvd_mpi_module";
inline constexpr const char* kMpiModuleBuild = "hvd_mpi_build";  // gives build_identity()
using MpiModuleFunction = MpiModule* (*)();

}  // namespace hvd::engine
