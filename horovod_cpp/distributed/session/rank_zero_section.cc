#include "horovod_cpp/distributed/session/rank_zero_section.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <span>

#include "core/base/bytes.h"
#include "core/base/deadlines.h"
#include "core/base/status.h"
#include "core/runtime/coordinator.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"

namespace hvd {
namespace {

constexpr std::size_t kMessageBytes = 4096;  // one broadcast of fixed size carries any ending
constexpr std::size_t kTextLimit = 4000;

Tensor message_of(bool failed, const std::string& error) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put(static_cast<std::uint8_t>(failed));
  out.put_string(error.substr(0, kTextLimit));
  Tensor message = Tensor::zeros({kMessageBytes}, DType::kU8);
  std::memcpy(message.data(), bytes.data(), bytes.size());
  return message;
}

std::string text_of(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

}  // namespace

RankZeroSection::RankZeroSection(Duration timeout, const ProcessSet& process_set)
    : set_(process_set),
      timeout_(timeout),
      deadline_(Clock::now() + timeout),
      mine_(process_set.rank() == 0),
      exceptions_at_start_(std::uncaught_exceptions()) {
  if (timeout <= Duration::zero()) {
    throw InvalidArgumentError("rank_zero_section: a timeout of " +
                               std::to_string(to_seconds(timeout)) + " s must be above 0");
  }
  set_.world()->runtime().coordinator().expect_wait_for_root(timeout);
}

RankZeroSection::~RankZeroSection() noexcept(false) {
  if (finished_) return;
  if (std::uncaught_exceptions() == exceptions_at_start_) {
    finish();
    return;
  }
  abandon();
}

void RankZeroSection::abandon() noexcept {
  if (finished_) return;
  try {  // the exception that is on its way is the one to see
    announce(mine_, "an exception ended it");
    if (mine_) wait_for_delivery();
  } catch (const std::exception&) {
  }
}

void RankZeroSection::announce(bool failed, const std::string& error) {
  finished_ = true;
  message_ = message_of(failed, error);
  ended_ = broadcast_async_(message_, set_.ranks().front(), {.process_set = set_});
  if (mine_) set_.world()->runtime().coordinator().expect_wait_for_root(Duration::zero());
}

// The rank that failed is likely to leave, and takes with it what the others did not get.
void RankZeroSection::wait_for_delivery() {
  ended_.wait_for(std::clamp<Duration>(deadline_ - Clock::now(), Duration::zero(), kDeliveryLimit));
}

void RankZeroSection::finish() {
  end(false, "");
}

void RankZeroSection::fail(const std::string& error) {
  end(true, error);
}

void RankZeroSection::end(bool failed, const std::string& error) {
  if (finished_) return;
  announce(failed && mine_, error);
  if (mine_ && failed) return wait_for_delivery();
  if (mine_) {
    ended_.synchronize();
    return;
  }
  const std::string first = "rank " + std::to_string(set_.ranks().front());
  if (!ended_.wait_for(std::max(deadline_ - Clock::now(), Duration::zero()))) {
    throw StalledError("rank_zero_section: " + first + " has not finished it within " +
                       text_of(timeout_));
  }
  ended_.synchronize();
  ByteReader in({static_cast<const std::byte*>(message_.data()), kMessageBytes});
  const bool failed_there = in.get<std::uint8_t>() != 0;
  const std::string text = in.get_string();
  if (failed_there) throw AbortedError("rank_zero_section failed on " + first + ": " + text);
}

void rank_zero_section(Duration timeout, const std::function<void()>& work,
                       const ProcessSet& process_set) {
  RankZeroSection section(timeout, process_set);
  if (section.mine()) {
    try {
      work();
    } catch (const std::exception& error) {
      section.fail(error.what());
      throw;
    } catch (...) {
      section.fail("an exception that is not a std::exception");
      throw;
    }
  }
  section.finish();
}

}  // namespace hvd
