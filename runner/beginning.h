#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/link/reception.h"
#include "runner/plan/launch_plan.h"

namespace hvd::runner {

// Where the agents of such a job connect.
Reception open_reception(const Options& options, const LaunchContext& context,
                         Reception::Expects expects);

// For an error: what plan.commands[number] is.
std::string starter_of(const LaunchPlan& plan, std::size_t number);

// Machines of which this one knows no address, and what to do; "" if there are none. Not before a
// job fails to start: ssh may know machines by names of its own.
std::string address_advice(std::span<const HostSlots> hosts);

// What to do about what ssh or a shell said; "" if that is not known.
std::string launcher_advice(std::string_view said, const std::string& host, int code);

}  // namespace hvd::runner
