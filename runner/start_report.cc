#include "runner/start_report.h"

#include "core/base/clock.h"
#include "runner/output/report.h"
#include "runner/plan/hosts.h"

namespace hvd::runner {

std::string address_advice(std::span<const HostSlots> hosts) {
  const std::string unknown = hosts_without_address(hosts);
  if (unknown.empty()) return "";
  return "hvdrun: this machine knows no address of " + unknown +
         ": correct the name after -H, or tell DNS, /etc/hosts or ~/.ssh/config what it means\n";
}

std::string late_start_report(std::span<const int> missing, int np, Duration timeout, bool remote) {
  return "hvdrun: not started after " + seconds_text(timeout) + ": rank" +
         (missing.size() == 1 ? " " : "s ") + list_ranks(missing) + " of " + std::to_string(np) +
         "; " +
         (remote ? "can this machine reach theirs with ssh, and they this one? "
                 : "is this machine too busy? ") +
         "--verbose shows the command that starts them and its messages, --start-timeout "
         "(HOROVOD_START_TIMEOUT) gives them more time\n";
}

std::string failed_start_report(std::string_view starter, int exit_code, bool hidden,
                                std::string_view advice) {
  std::string text = "hvdrun: ";
  text += starter;
  text += " failed with exit code " + std::to_string(exit_code) +
          (hidden ? "; --verbose shows its messages\n" : "; its messages are above\n");
  return text.append(advice);
}

}  // namespace hvd::runner
