// Altered messages: a rank throws PeerLostError or takes them for what they say; it never crashes
// (the sanitizer builds look closer) and never asks for absurd memory.

#include <gtest/gtest.h>

#include "core/base/status.h"
#include "test/core/negotiate/negotiate_builders.h"
#include "test/support/lock_step_cluster.h"

namespace hvd::engine {
namespace {

using test::gradient;
using test::LockStepCluster;
using test::repetitions;

void alter(Bytes& message, std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      message.resize(random() % (message.size() + 1));
      return;
    case 1:
      message.insert(message.begin() + static_cast<std::ptrdiff_t>(random() % (message.size() + 1)),
                     static_cast<std::byte>(random() % 256));
      return;
    default:
      for (auto n = 1 + random() % 3; n > 0 && !message.empty(); --n) {
        message[random() % message.size()] =
            static_cast<std::byte>(random() % 3 == 0 ? 0xff : random() % 256);
      }
  }
}

TEST(AlteredMessages, ThrowOrAreTaken) {
  int thrown = 0;
  for (int seed = 0; seed < repetitions(300); ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    NegotiationSettings settings;
    settings.cache_capacity = 2;
    LockStepCluster cluster(test::trees_of({0, 0, 1, 1}), settings);
    for (int step = 0; step < 30; ++step) {
      const auto r = static_cast<Rank>(random() % 4);
      const std::string name(1, "abc"[random() % 3]);
      try {
        if (!cluster.pending(r, name) && !cluster.stopped(r)) cluster.submit(r, gradient(name));
        const auto events = cluster.events();
        if (events.empty()) continue;
        const auto& event = events[random() % events.size()];
        auto& messages = cluster.link(event.from, event.to);
        if (!messages.empty() && random() % 4 == 0) alter(messages.front(), random);
        cluster.perform(event);
      } catch (const PeerLostError&) {
        ++thrown;
      } catch (const Error&) {
        break;  // the alteration was taken: this rank's job is over or confused, and says so
      } catch (const test::Violation&) {
        break;  // ranks were told different things
      }
    }
  }
  EXPECT_GT(thrown, 100);
}

}  // namespace
}  // namespace hvd::engine
