#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/clock.h"
#include "runner/plan/options.h"

// What hvdrun says about a job that did not start.
namespace hvd::runner {

// Machines of which this one knows no address, and what to do; "" if there are none. Not before a
// job fails to start: ssh may know machines by names of its own.
std::string address_advice(std::span<const HostSlots> hosts);

// The agents of the ranks `missing` did not come in time.
std::string late_start_report(std::span<const int> missing, int np, Duration timeout, bool remote);

// Where mpirun fails and all ranks are on this machine.
inline constexpr const char* kWithoutMpirun =
    "hvdrun: --gloo starts ranks on one machine without mpirun\n";

// `starter`, mpirun for one, failed. `hidden`: its messages were not shown. `advice`: more lines.
std::string failed_start_report(std::string_view starter, int exit_code, bool hidden,
                                std::string_view advice);

}  // namespace hvd::runner
