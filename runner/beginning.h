#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/link/reception.h"
#include "runner/plan/launch_plan.h"
#include "runner/process.h"

namespace hvd::runner {

// Where the agents of such a job connect.
Reception open_reception(const Options& options, const LaunchContext& context,
                         Reception::Expects expects);

// For an error: what plan.commands[number] is.
std::string starter_of(const LaunchPlan& plan, std::size_t number);

// Machines of which this one knows no address, and what to do; "" if there are none. Not before a
// job fails to start: ssh may know machines by names of its own.
std::string address_advice(std::span<const HostSlots> hosts);

// What failed to start agents, and what to do about it where that is known. `said`: by the commands
// of the plan, what they wrote; `where_it_is`: what to say about that.
std::string launcher_failures(const LaunchPlan& plan,
                              std::span<const RootProcesses::Failure> failures,
                              std::span<const std::string> said, std::string_view where_it_is);

}  // namespace hvd::runner
