#include "ops/net/tcp_control_plane.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/deadlines.h"
#include "core/base/fields.h"
#include "core/base/topology.h"
#include "core/runtime/wake/waiting.h"
#include "core/system/engine_thread.h"
#include "core/system/interruptible_waits.h"

namespace hvd::engine {
namespace {

constexpr std::size_t kLongestReason = 1'000;  // bytes
// How long the network may go unserved before the thread watches it again.
constexpr Duration kUnwatched = std::chrono::milliseconds(5);

// What the thread was woken by.
enum Source : std::uint64_t { kWake, kNetwork, kData };

int checked(int result, const char* call) {
  if (result >= 0) return result;
  throw InternalError("cannot serve the connections, ", call, ": ", std::strerror(errno));
}

void change_source(int sources, int operation, int descriptor, Source source,
                   std::uint32_t events) {
  epoll_event event{events, {.u64 = source}};
  checked(epoll_ctl(sources, operation, descriptor, &event), "epoll_ctl");
}

}  // namespace

TcpControlPlane::TcpControlPlane(const Placement& placement, std::vector<TcpListener> listeners,
                                 std::vector<TcpEndpoint> endpoints, const JobKey& key,
                                 Duration link_timeout, DoorbellState* bell)
    : ControlPlane(placement),
      link_timeout_(link_timeout),
      bell_(bell != nullptr ? *bell : own_bell_),
      doorbell_(bell_),
      wake_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      sources_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      network_(placement, std::move(listeners), std::move(endpoints), key, link_timeout),
      network_descriptor_(network_.descriptor()) {
  change_source(sources_.get(), EPOLL_CTL_ADD, wake_.get(), kWake, EPOLLIN);
  change_source(sources_.get(), EPOLL_CTL_ADD, network_.descriptor(), kNetwork,
                EPOLLIN | EPOLLONESHOT);
  thread_ = start_engine_thread([this] { run(); });
}

TcpControlPlane::~TcpControlPlane() {
  polled_ = false;
  arm_network();  // the thread does the rest
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
  for (const Rank rank : to) network_.open({.rank = rank}, TimePoint::max());
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
  while (serve_once()) {
  }
}

bool TcpControlPlane::serve_once() {
  int timeout = 0;
  {
    MutexLock lock(mutex_);
    if (stop_ || broken_) return false;
    wakes_at_ = network_.next_deadline();
    if (!armed_) wakes_at_ = std::min(wakes_at_, Clock::now() + kUnwatched);
    timeout = milliseconds_until(wakes_at_);
  }
  std::array<epoll_event, 3> ready;
  const int count = epoll_wait(sources_.get(), ready.data(), ready.size(), timeout);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t source = ready[static_cast<std::size_t>(i)].data.u64;
    eventfd_t ignored = 0;
    if (source == kWake) eventfd_read(wake_.get(), &ignored);
    if (source == kData) doorbell_.ring();
    if (source == kNetwork) armed_ = false;
  }
  MutexLock lock(mutex_);
  serve();
  report_events();
  if (broken_) doorbell_.ring();
  changed_.notify_all();
  if (!armed_ && !polled_.exchange(false)) arm_network();
  return true;
}

void TcpControlPlane::arm_network() noexcept {
  armed_ = true;
  arm(network_descriptor_, kNetwork);
}

std::optional<Duration> TcpControlPlane::poll_interval() const {
  return kPollInterval;
}

std::optional<Duration> TcpControlPlane::prepare_sleep() {
  polled_ = false;
  // What comes for a rank that defers wake-ups can wait for kUnwatched. Between two blocking calls
  // the thread would be woken for the first message of each, on the core of whoever polls.
  if (!armed_ && !defers_wake(bell_)) arm_network();
  return std::nullopt;
}

// What is broken is never served again: bytes may be missing in the middle of a frame.
void TcpControlPlane::serve() {
  if (broken_) return;
  try {
    network_.serve();
  } catch (...) {
    broken_ = std::current_exception();
  }
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
  throw InternalError(placement_.described(topology_.rank),
                      " cannot go on with control messages between hosts: ", why);
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
  const std::size_t count = network_.events().size();
  bool rings = std::exchange(waiting_, count) < count;
  const std::size_t data = network_.data().size();
  rings |= data_waiting_.exchange(data, std::memory_order_release) < data;
  if (rings) doorbell_.ring();
}

void TcpControlPlane::open_data(Rank to) {
  MutexLock lock(mutex_);
  const TimePoint give_up = Clock::now() + link_timeout_;
  network_.open({to, HandshakeService::kData}, give_up);
  // It notices that the other host is gone.
  if (!placement_.is_local(to)) network_.open({to, HandshakeService::kControl}, give_up);
  after_call();
}

std::deque<TcpNetwork::Data> TcpControlPlane::take_data() {
  if (data_waiting_.load(std::memory_order_acquire) == 0) return {};
  MutexLock lock(mutex_);
  data_waiting_.store(0, std::memory_order_relaxed);
  return std::exchange(network_.data(), {});
}

void TcpControlPlane::data_broke(Rank rank, const std::string& why) {
  MutexLock lock(mutex_);
  network_.data_ended(rank, "is gone: its connection for tensors " +
                                (why.empty() ? "closed" : "broke (" + why + ")"));
  after_call();
}

void TcpControlPlane::watch(int descriptor) {
  change_source(sources_.get(), EPOLL_CTL_ADD, descriptor, kData, EPOLLONESHOT);
}

void TcpControlPlane::arm(int descriptor, std::uint64_t source) noexcept {
  epoll_event event{EPOLLIN | EPOLLONESHOT, {.u64 = source}};
  epoll_ctl(sources_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void TcpControlPlane::arm(int descriptor) noexcept {
  arm(descriptor, kData);
}

void TcpControlPlane::forget(int descriptor) noexcept {
  epoll_ctl(sources_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void TcpControlPlane::send(Rank to, std::span<const std::byte> message) {
  if (to < 0 || to >= topology_.size || to == topology_.rank) {
    throw InternalError("rank ", topology_.rank, " cannot send to rank ", to, " over TCP");
  }
  MutexLock lock(mutex_);
  network_.send(to, message);
  after_call();
}

std::optional<Message> TcpControlPlane::poll() {
  polled_.store(true, std::memory_order_relaxed);
  MutexLock lock(mutex_);
  if (network_.events().empty()) {
    serve();
    throw_if_broken();
    waiting_ = network_.events().size();  // this thread needs no ring
    after_call();
  }
  if (network_.events().empty()) return std::nullopt;
  TcpNetwork::Event event = std::move(network_.events().front());
  network_.events().pop_front();
  waiting_ = network_.events().size();
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

namespace {

// What each rank says first: that it failed and why, or where it listens. Rank 0's key counts.
struct Greeting {
  std::string failure;
  std::string key;
  TcpEndpoint endpoint;
};

template <typename Io>
void serialize(Io& io, Fields<Io, Greeting>& greeting) {
  io.text(greeting.failure);
  io.text(greeting.key);
  serialize(io, greeting.endpoint);
}

std::string encode(const Greeting& greeting) {
  Bytes bytes;
  ByteWriter out(bytes);
  serialize(out, greeting);
  return to_text(bytes);
}

std::vector<Greeting> decode(const std::vector<std::string>& texts) {
  std::vector<Greeting> greetings;
  for (const std::string& text : texts) {
    ByteReader in(to_bytes(text));
    greetings.push_back(deserialize<Greeting>(in));
    in.expect_end();
    if (!greetings.back().failure.empty()) throw UnsupportedError(greetings.back().failure);
  }
  return greetings;
}

}  // namespace

std::unique_ptr<TcpControlPlane> connect_hosts(Rendezvous& others, const Placement& placement,
                                               const Config& config, DoorbellState* bell,
                                               TimePoint deadline) {
  std::vector<TcpListener> listeners;
  Greeting mine;
  try {
    listeners = listen_on_interfaces(config.network_interfaces, config.port_range);
    mine.endpoint = endpoint_of(listeners, config.advertise_address);
    if (placement.rank == 0) mine.key = to_text(draw_key());
  } catch (const Error& error) {
    mine.failure = placement.described(placement.rank) + ": " + error.what();
  }
  const std::vector<Greeting> all = decode(others.all_gather(encode(mine), deadline));
  std::vector<TcpEndpoint> endpoints;
  for (const Greeting& each : all) endpoints.push_back(each.endpoint);
  const JobKey key = hmac_sha256(to_bytes(others.secret()), to_bytes(all.front().key));
  auto plane = std::make_unique<TcpControlPlane>(
      placement, std::move(listeners), std::move(endpoints), key, config.link_timeout, bell);
  const Tree tree = make_tree(placement.rank, placement.host_of);
  std::vector<Rank> above = {tree.parent};
  std::vector<Rank> below = tree.children;
  const auto is_local = [&](Rank rank) { return placement.is_local(rank); };
  std::erase_if(above, is_local);
  std::erase_if(below, is_local);
  std::string failure;
  try {
    plane->connect(above, below, deadline);
  } catch (const Error& error) {
    failure = placement.described(placement.rank) + ": " + error.what();
  }
  for (const std::string& text : others.all_gather(failure, deadline + kTellingLimit)) {
    if (!text.empty()) throw StalledError(text);
  }
  return plane;
}

}  // namespace hvd::engine
