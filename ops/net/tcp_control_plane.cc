#include "ops/net/tcp_control_plane.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/deadlines.h"
#include "core/system/engine_thread.h"
#include "core/system/interruptible_waits.h"

namespace hvd {
namespace {

constexpr std::size_t kLongestReason = 1'000;  // bytes

UniqueFd make_wake() {
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake) return wake;
  throw InternalError(std::string("cannot serve the connections, eventfd: ") +
                      std::strerror(errno));
}

int milliseconds_until(TimePoint deadline) {
  using std::chrono::milliseconds;
  if (deadline == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
}

}  // namespace

TcpEndpoint TcpDoor::endpoint() const {
  TcpEndpoint endpoint;
  for (const TcpListener& listener : listeners) endpoint.addresses.push_back(listener.at);
  return endpoint;
}

TcpDoor open_door(const std::string& interfaces) {
  TcpDoor door;
  std::string failures;
  for (const std::string& host : addresses_of(interfaces, local_addresses())) {
    // An address of IPv6 that is just being made, for instance: it is not published.
    try {
      door.listeners.push_back(listen_on(host));
    } catch (const UnsupportedError& error) {
      failures += (failures.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  if (!door.listeners.empty()) return door;
  throw UnsupportedError(failures.empty() ? "this machine has no network address that is up"
                                          : failures);
}

TcpControlPlane::TcpControlPlane(const Placement& placement, TcpDoor door,
                                 std::vector<TcpEndpoint> endpoints, const JobKey& key,
                                 Duration link_timeout, const Doorbell* bell)
    : placement_(placement),
      topology_(topology_of(placement)),
      doorbell_(bell != nullptr ? *bell : Doorbell(own_bell_)),
      wake_(make_wake()),
      network_(placement, std::move(door.listeners), std::move(endpoints), key, link_timeout) {
  thread_ = start_engine_thread([this] { run(); });
}

TcpControlPlane::~TcpControlPlane() {
  {
    MutexLock lock(mutex_);
    network_.part(TcpFrameKind::kGoodbye, {});
    after_call();
    const TimePoint deadline = Clock::now() + kCloseLimit;
    while (!broken_ && !network_.parted() && Clock::now() < deadline)
      changed_.wait_until(mutex_, deadline);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void TcpControlPlane::connect(std::span<const Rank> to, std::span<const Rank> from,
                              TimePoint deadline) {
  std::vector<Rank> all(to.begin(), to.end());
  all.insert(all.end(), from.begin(), from.end());
  MutexLock lock(mutex_);
  for (const Rank rank : to) network_.open(rank, TimePoint::max());
  after_call();
  const auto is_missing = [this](Rank rank)
                              HVD_REQUIRES(mutex_) { return !network_.connected(rank); };
  while (true) {
    const auto missing = std::find_if(all.begin(), all.end(), is_missing);
    if (missing == all.end()) return;
    throw_if_broken();
    for (const TcpNetwork::Event& event : network_.events()) {
      if (event.lost) throw LostRankError(event.from, event.why);
    }
    if (Clock::now() >= deadline) {
      throw StalledError(network_.obstacle(*missing) +
                         " within the start timeout (HOROVOD_START_TIMEOUT)");
    }
    InterruptibleWaits::look();
    changed_.wait_until(mutex_, InterruptibleWaits::look_before(deadline));
  }
}

void TcpControlPlane::run() {
  try {
    while (serve_once()) {
    }
  } catch (...) {
    break_down(std::current_exception());
  }
}

bool TcpControlPlane::serve_once() {
  int timeout = 0;
  int descriptor = -1;
  {
    MutexLock lock(mutex_);
    if (stop_) return false;
    wakes_at_ = network_.next_deadline();
    timeout = milliseconds_until(wakes_at_);
    descriptor = network_.descriptor();
  }
  std::array<pollfd, 2> sources = {{{wake_.get(), POLLIN, 0}, {descriptor, POLLIN, 0}}};
  ::poll(sources.data(), sources.size(), timeout);
  eventfd_t ignored = 0;
  if (sources[0].revents != 0) eventfd_read(wake_.get(), &ignored);
  MutexLock lock(mutex_);
  network_.serve();
  report_events();
  changed_.notify_all();
  return true;
}

void TcpControlPlane::break_down(std::exception_ptr why) noexcept {
  MutexLock lock(mutex_);
  broken_ = std::move(why);
  ++waiting_;
  doorbell_.ring();
  changed_.notify_all();
}

void TcpControlPlane::throw_if_broken() {
  if (!broken_) return;
  std::string why = "an exception of unknown type";
  try {
    std::rethrow_exception(broken_);
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  throw InternalError(placement_.described(topology_.rank) +
                      " cannot go on with control messages between hosts: " + why);
}

void TcpControlPlane::wake() noexcept {
  eventfd_write(wake_.get(), 1);
}

void TcpControlPlane::after_call() {
  report_events();
  if (network_.next_deadline() < wakes_at_) {
    wakes_at_ = network_.next_deadline();
    wake();
  }
}

void TcpControlPlane::report_events() {
  const std::size_t count = network_.events().size() + (broken_ ? 1 : 0);
  if (waiting_.exchange(count, std::memory_order_release) < count) doorbell_.ring();
}

void TcpControlPlane::send(Rank to, std::span<const std::byte> message) {
  if (to < 0 || to >= topology_.size || to == topology_.rank) {
    throw InternalError("rank " + std::to_string(topology_.rank) + " cannot send to rank " +
                        std::to_string(to) + " over TCP");
  }
  MutexLock lock(mutex_);
  network_.send(to, message);
  after_call();
}

std::optional<Message> TcpControlPlane::poll() {
  if (waiting_.load(std::memory_order_acquire) == 0) return std::nullopt;
  MutexLock lock(mutex_);
  if (network_.events().empty()) throw_if_broken();
  TcpNetwork::Event event = std::move(network_.events().front());
  network_.events().pop_front();
  waiting_.store(network_.events().size() + (broken_ ? 1 : 0), std::memory_order_release);
  if (event.lost) throw LostRankError(event.from, event.why);
  return Message{event.from, std::move(event.message)};
}

void TcpControlPlane::abort(const Status& why) noexcept {
  try {
    MutexLock lock(mutex_);
    network_.part(TcpFrameKind::kFailure, why.message().substr(0, kLongestReason));
    after_call();
  } catch (...) {
    wake();  // out of memory: the others see the connections end with the process
  }
}

}  // namespace hvd
