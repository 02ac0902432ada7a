#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd::runner {

using Environment = std::map<std::string, std::string>;

// Nothing if `name` is not set.
std::optional<std::string> value_of(const Environment& environment, const char* name);

// A host and the number of ranks it may hold.
struct HostSlots {
  std::string host;
  int slots = 1;

  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// Why no host is called this, "" if one may be: names reach ssh's command line. Pure.
std::string host_name_problem(std::string_view host);

// Reads "a:2,b:4"; a host without a number has one slot. Throws InvalidArgumentError naming -H and
// the part that is wrong (a name that host_name_problem() refuses, slots below 1 or not a number, a
// host given twice).
std::vector<HostSlots> parse_hosts(std::string_view text);

// Reads a file with lines such as "node1 slots=4" or "node1:4"; without slots a host has one; #
// begins a comment. Throws InvalidArgumentError naming file and line.
std::vector<HostSlots> read_hostfile(const std::string& path);

std::string to_string(std::span<const HostSlots> hosts);  // "a:2,b:4"

int total_slots(std::span<const HostSlots> hosts);

// Whether `host` means this machine, whose name is `hostname` ("node7" or "node7.cluster").
bool is_local_host(std::string_view host, std::string_view hostname);

// "node9 (Name or service not known), ...": those that this machine finds no address of; "" if
// there are none. Asks the name service, which may take some seconds.
std::string hosts_without_address(std::span<const HostSlots> hosts);

// What a scheduler granted to this job.
struct ScheduledJob {
  std::string scheduler;
  std::string launcher;  // as --launcher: what it starts programs on other machines with
  std::vector<HostSlots> hosts;
  std::optional<int> tasks;  // -n of sbatch or salloc; of others the slots
};

// Reads SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE and SLURM_NTASKS, or the file that PBS_NODEFILE
// (PBS, Torque), LSB_DJOB_HOSTFILE (LSF) or PE_HOSTFILE (Grid Engine) names; nothing outside an
// allocation. Throws InvalidArgumentError naming the variable and its value when it cannot be
// understood.
std::optional<ScheduledJob> scheduled_job(const Environment& environment);

// "n[01-03,07],m1" -> n01 n02 n03 n07 m1. Also "r[1-2]n[1-2]". Throws as above.
std::vector<std::string> expand_nodes(std::string_view text);

// "2(x3),1" -> 2 2 2 1. Throws as above.
std::vector<int> expand_counts(std::string_view text);

}  // namespace hvd::runner
