#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bindings/native/distributed/distributed.h"
#include "core/config/launch_info.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "horovod_cpp/distributed/session/session.h"
#include "ops/connect/backends.h"
#include "ops/net/tcp_socket.h"

namespace hvd::python {
void bind_session(py::module_& m) {
  m.def("shutdown", &shutdown, ReleaseGil(),
        R"(Leave the job in order: what is complete on all ranks still runs, the rest fails with
AbortedError here and on the other ranks. Does nothing when not initialised; runs at exit too,
unless an uncaught exception ends the program: then the other ranks lose this one.)");
  m.def("is_initialized", &is_initialized, "Whether init() was called, and shutdown() not since.");
  m.def("rank", &rank, "This process's number among all, 0 to size()-1. Needs init().");
  m.def("size", &size, "Number of ranks in the job. Needs init().");
  m.def("local_rank", &local_rank, "This process's number on its host. Needs init().");
  m.def("local_size", &local_size, "Number of ranks on this host. Needs init().");
  m.def("cross_rank", &cross_rank,
        "This host's number among those that have this local_rank. Needs init().");
  m.def("cross_size", &cross_size, "Number of hosts that have this local_rank. Needs init().");
  m.def("is_homogeneous", &is_homogeneous,
        "Whether every host has the same number of ranks. Needs init().");
  m.def("mpi_enabled", &mpi_enabled, "Whether this job uses MPI. Needs init().");
  m.def("mpi_threads_supported", &mpi_threads_supported,
        "Whether MPI granted MPI_THREAD_MULTIPLE; InvalidArgumentError when this job does not use "
        "MPI. Needs init().");
  m.def(
      "_is_running", [] { return is_initialized() && world()->stopped().ok(); },
      "Whether this process is in a job that has not failed.");
  m.def(
      "_calls", [] { return is_initialized() ? world()->runtime().calls() : 0; },
      "How often this process has submitted something to its job.");
  m.def(
      "_launch_info",
      [] {
        const LaunchInfo launch = read_launch_info();
        return std::make_tuple(launch.launcher, launch.rank, launch.size);
      },
      "(launcher, rank, size) by this process's variables: \"\" and None where they do not say.");
  m.def(
      "_backends",
      [] {
        std::map<std::string, std::pair<bool, std::string>> found;
        for (const engine::BackendInfo& each : engine::backends())
          found[each.name] = {each.usable, each.detail};
        return found;
      },
      "Whether this build can use each backend here, by name, with its version or why it cannot.");
  m.def(
      "_local_addresses",
      [] {
        std::vector<std::pair<std::string, std::string>> found;
        for (const engine::LocalAddress& each : engine::local_addresses()) {
          found.emplace_back(each.interface, each.address);
        }
        return found;
      },
      "Pairs of an interface that is up and an address of it, without IPv6's of one link only.");
}

}  // namespace hvd::python
