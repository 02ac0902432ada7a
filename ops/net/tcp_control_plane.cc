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

namespace hvd {
namespace {

constexpr std::size_t kLongestReason = 1'000;  // bytes
// How long nobody may serve the network before the thread watches it again.
constexpr Duration kUnwatched = std::chrono::milliseconds(5);

// What the thread was woken by.
enum Source : std::uint64_t { kWake, kNetwork, kData };

int checked(int result, const char* call) {
  if (result >= 0) return result;
  throw InternalError("cannot serve the connections, " + std::string(call) + ": " +
                      std::strerror(errno));
}

void change_source(int sources, int operation, int descriptor, Source source,
                   std::uint32_t events) {
  epoll_event event{events, {.u64 = source}};
  checked(epoll_ctl(sources, operation, descriptor, &event), "epoll_ctl");
}

}  // namespace

TcpDoor open_door(const std::string& interfaces, PortRange ports) {
  return {listen_on_each(addresses_of(interfaces, local_addresses()), ports)};
}

TcpControlPlane::TcpControlPlane(const Placement& placement, TcpDoor door,
                                 std::vector<TcpEndpoint> endpoints, const JobKey& key,
                                 Duration link_timeout, DoorbellState* bell)
    : ControlPlane(placement),
      link_timeout_(link_timeout),
      bell_(bell != nullptr ? *bell : own_bell_),
      doorbell_(bell_),
      wake_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      sources_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      network_(placement, std::move(door.listeners), std::move(endpoints), key, link_timeout),
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

// What is broken is never served again, by nobody: bytes may be missing in the middle of a frame.
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
  const auto host = [this](Rank rank) { return host_of()[static_cast<std::size_t>(rank)]; };
  if (host(to) != host(topology_.rank)) network_.open({to, HandshakeService::kControl}, give_up);
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
    throw InternalError("rank " + std::to_string(topology_.rank) + " cannot send to rank " +
                        std::to_string(to) + " over TCP");
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
    waiting_ = network_.events().size();  // who is here needs no ring
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

// What each rank says first: that it failed and why, or where its door is. Rank 0's key counts.
std::string encode(const std::string& failure, const TcpEndpoint& endpoint, const JobKey& key) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put_string(failure);
  put_endpoint(out, endpoint);
  for (const std::byte each : key) out.put(each);
  return to_text(bytes);
}

struct Others {
  std::vector<TcpEndpoint> endpoints;
  JobKey key{};
};

Others read_others(const std::vector<std::string>& texts) {
  Others others;
  for (const std::string& text : texts) {
    ByteReader in(to_bytes(text));
    const std::string failure = in.get_string();
    if (!failure.empty()) throw UnsupportedError(failure);
    others.endpoints.push_back(get_endpoint(in));
    const bool is_rank_0 = others.endpoints.size() == 1;
    for (std::byte& each : others.key) {
      const auto theirs = static_cast<std::byte>(in.get<std::uint8_t>());
      if (is_rank_0) each = theirs;
    }
    in.expect_end();
  }
  return others;
}

}  // namespace

std::unique_ptr<TcpControlPlane> connect_hosts(const Placement& placement, const Config& config,
                                               DoorbellState* bell, const AllGather& all_gather,
                                               TimePoint deadline, const std::string& secret) {
  TcpDoor door;
  TcpEndpoint endpoint;
  JobKey key{};
  std::string failure;
  try {
    door = open_door(config.network_interfaces, config.port_range);
    endpoint = endpoint_of(door.listeners, config.advertise_address);
    if (placement.rank == 0) key = draw_key();
  } catch (const Error& error) {
    failure = placement.described(placement.rank) + ": " + error.what();
  }
  Others others = read_others(all_gather(encode(failure, endpoint, key), deadline));
  if (!secret.empty()) {
    others.key = hmac_sha256(std::as_bytes(std::span(secret)), others.key);
  }
  auto plane =
      std::make_unique<TcpControlPlane>(placement, std::move(door), std::move(others.endpoints),
                                        others.key, config.link_timeout, bell);
  const Tree tree = make_tree(placement.rank, placement.host_of);
  const auto is_remote = [&](Rank rank) {
    const std::vector<int>& host_of = placement.host_of;
    return host_of[static_cast<std::size_t>(rank)] !=
           host_of[static_cast<std::size_t>(placement.rank)];
  };
  std::vector<Rank> above;
  std::vector<Rank> below;
  if (is_remote(tree.parent)) above.push_back(tree.parent);
  for (const Rank child : tree.children) {
    if (is_remote(child)) below.push_back(child);
  }
  try {
    plane->connect(above, below, deadline);
  } catch (const Error& error) {
    failure = placement.described(placement.rank) + ": " + error.what();
  }
  for (const std::string& text : all_gather(failure, deadline + kTellingLimit)) {
    if (!text.empty()) throw StalledError(text);
  }
  return plane;
}

}  // namespace hvd
