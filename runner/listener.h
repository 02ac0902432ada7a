#pragma once

#include "runner/process.h"
#include "runner/wire.h"

namespace hvd::runner {

// 32 hexadecimal digits that nobody can guess. Throws Error{kInternal}.
std::string random_key();

// The TCP port on which hvdrun awaits its agents; not blocking.
class Listener {
 public:
  // `remote`: on every interface rather than on loopback only. Throws Error{kInternal}.
  explicit Listener(bool remote);
  int fd() const { return fd_.get(); }
  // With a fresh random key.
  const AgentAddress& address() const { return address_; }
  // The next connection, or an empty descriptor.
  UniqueFd accept();

 private:
  UniqueFd fd_;
  AgentAddress address_;
};

}  // namespace hvd::runner
