#include "runner/beginning.h"

#include "core/base/text.h"
#include "core/system/host.h"

namespace hvd::runner {

Reception open_reception(const Options& options, const LaunchContext& context,
                         Reception::Expects expects) {
  const Environment environment = rank_environment(options, context);
  return {listening_addresses(may_be_remote(options, context), chosen_interfaces(environment)),
          port_range(environment),
          options.manual.key_file.empty() ? random_hex(64)
                                          : read_key_file(options.manual.key_file, true),
          ranks_of_agents(options, context).size(),
          link_timeout(environment),
          std::move(expects)};
}

std::string starter_of(const LaunchPlan& plan, std::size_t number) {
  if (plan.by_mpirun) return "mpirun";
  const LaunchCommand& command = plan.commands[number];
  if (command.host.empty()) return "an agent of hvdrun";
  return "host " + command.host + ": " + command.argv[0];
}

std::string address_advice(std::span<const HostSlots> hosts) {
  const std::string unknown = hosts_without_address(hosts);
  if (unknown.empty()) return "";
  return "hvdrun: this machine knows no address of " + unknown +
         ": correct the name after -H, or tell DNS, /etc/hosts or ~/.ssh/config what it means\n";
}

namespace {

// What to do about what ssh or a shell said; "" if that is not known.
std::string launcher_advice(std::string_view said, const std::string& host, int code) {
  const auto has = [&](const char* words) { return said.find(words) != std::string_view::npos; };
  if (has("Host key verification failed")) {
    return "hvdrun: 'ssh " + host + "' by hand shows its key and remembers it\n";
  }
  if (has("Permission denied (")) {
    return "hvdrun: ssh must ask for no password there: 'ssh-copy-id " + host + "'\n";
  }
  if (code == 127) return "hvdrun: hvdrun has to be at the same path on every host\n";
  return "";
}

}  // namespace

std::string launcher_failures(const LaunchPlan& plan,
                              std::span<const RootProcesses::Failure> failures,
                              std::span<const std::string> said, std::string_view where_it_is) {
  std::string text;
  for (const auto& [command, code] : failures) {
    text += "hvdrun: " + starter_of(plan, command) + " failed with exit code " +
            std::to_string(code) + std::string(where_it_is) + "\n";
    const std::string& host = plan.commands[command].host;
    const std::string advice = host.empty() ? "" : launcher_advice(said[command], host, code);
    if (text.find(advice) == std::string::npos) text += advice;  // some holds for all hosts
  }
  return text;
}

}  // namespace hvd::runner
