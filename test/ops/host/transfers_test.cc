// Receives whose sender gives up, over a link in memory: each note arrives when the test says so,
// also in the last look of done().

#include "ops/host/transfers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "test/support/fence_gate.h"

namespace hvd::engine::host::test {
namespace {

constexpr int kTag = 7;

// What one rank sends to the other.
struct Direction {
  struct Sent {
    std::vector<std::byte> bytes;
    bool skipped = false;
  };
  std::deque<Bytes> notes;
  std::deque<Sent> data;  // the n-th meets the n-th receive
  std::size_t receives = 0;
};

class SendData final : public TransferData {
 public:
  explicit SendData(Direction::Sent& sent) : sent_(&sent) {}
  bool done() override { return true; }
  bool withdraw(bool for_good) noexcept override {
    if (!for_good) sent_->skipped = true;
    return true;
  }

 private:
  Direction::Sent* sent_;
};

class ReceiveData final : public TransferData {
 public:
  ReceiveData(Direction& from, std::byte* data) : from_(&from), at_(from.receives++), data_(data) {}
  bool done() override {
    if (at_ >= from_->data.size()) return false;
    const auto& bytes = from_->data[at_].bytes;
    if (arrived()) std::memcpy(data_, bytes.data(), bytes.size());
    return true;
  }
  bool arrived() const override { return !from_->data[at_].skipped; }
  bool withdraw(bool /*for_good*/) noexcept override { return true; }

 private:
  Direction* from_;
  std::size_t at_;
  std::byte* data_;
};

class MemoryLink final : public TransferLink {
 public:
  MemoryLink(Rank peer, Direction& out, Direction& in) : peer_(peer), out_(&out), in_(&in) {}
  void say(Rank /*to*/, Bytes note) override { out_->notes.push_back(std::move(note)); }
  std::optional<Message> hear() override {
    if (in_->notes.empty()) return std::nullopt;
    Message message{peer_, std::move(in_->notes.front())};
    in_->notes.pop_front();
    return message;
  }
  void flush() override {}
  bool said(Rank /*to*/) override { return true; }
  std::unique_ptr<TransferData> send(Rank /*to*/, const std::byte* data,
                                     std::size_t bytes) override {
    return std::make_unique<SendData>(out_->data.emplace_back(
        Direction::Sent{std::vector<std::byte>(data, data + bytes), false}));
  }
  std::unique_ptr<TransferData> receive(Rank /*from*/, std::byte* data,
                                        std::size_t /*bytes*/) override {
    return std::make_unique<ReceiveData>(*in_, data);
  }
  void skip(Rank /*to*/, std::size_t bytes) override {
    out_->data.push_back({std::vector<std::byte>(bytes), true});
  }
  bool idle() override { return true; }

 private:
  Rank peer_;
  Direction* out_;
  Direction* in_;
};

class TransfersGivenUp : public testing::Test {
 protected:
  std::shared_ptr<Transfer> send(float& value) { return sender_.add(transfer(true, value, {})); }
  std::shared_ptr<Transfer> receive(float& value, std::vector<Fence> ready = {}) {
    return receiver_.add(transfer(false, value, std::move(ready)));
  }

  // Rank 0 sends to rank 1.
  static Transfer transfer(bool sends, float& value, std::vector<Fence> ready) {
    return {.sends = sends,
            .key = {0, kTag},
            .peer = sends ? 1 : 0,
            .from = 0,
            .to = 1,
            .tensor = {&value, 1, DType::kF32, {}},
            .ready = std::move(ready)};
  }

  Direction forth_, back_;
  Transfers sender_{std::make_unique<MemoryLink>(1, forth_, back_)};
  Transfers receiver_{std::make_unique<MemoryLink>(0, back_, forth_)};
  float sent_[2] = {1, 2};
  float received_[2] = {0, 0};
};

TEST_F(TransfersGivenUp, OvertakenInItsLastLookItEndsOnce) {
  const auto first_send = send(sent_[0]);
  const auto second_send = send(sent_[1]);
  const auto first = receive(received_[0]);
  const auto second = receive(received_[1]);
  sender_.poll();    // offers both
  receiver_.poll();  // answers both
  sender_.poll();    // both are on their way
  EXPECT_TRUE(sender_.withdraw(first_send, false));
  // Nothing polls in between: done() itself hears that the first was given up.
  EXPECT_TRUE(receiver_.done(*first));
  EXPECT_EQ(first->status.code(), StatusCode::kStalled) << first->status.message();
  EXPECT_TRUE(receiver_.done(*first)) << "ended once more";
  EXPECT_TRUE(receiver_.done(*second));
  EXPECT_TRUE(second->status.ok()) << second->status.message();
  EXPECT_EQ(received_[1], 2);
  EXPECT_TRUE(sender_.done(*second_send));
}

TEST_F(TransfersGivenUp, InItsLastLookItWaitsForTheNextSendIfNoneOvertookIt) {
  const auto given_up = send(sent_[0]);
  const auto waiting = receive(received_[0]);
  sender_.poll();
  receiver_.poll();
  sender_.poll();
  EXPECT_TRUE(sender_.withdraw(given_up, false));
  EXPECT_FALSE(receiver_.done(*waiting));
  const auto next = send(sent_[1]);
  sender_.poll();
  receiver_.poll();
  sender_.poll();
  EXPECT_TRUE(receiver_.done(*waiting));
  EXPECT_TRUE(waiting->status.ok()) << waiting->status.message();
  EXPECT_EQ(received_[0], 2);
}

TEST_F(TransfersGivenUp, OvertakenBeforeItIsReadyItFails) {
  const auto gate = std::make_shared<hvd::engine::test::FenceGate>();
  const auto first_send = send(sent_[0]);
  const auto second_send = send(sent_[1]);
  const auto first = receive(received_[0], {Fence(gate)});
  const auto second = receive(received_[1]);
  sender_.poll();
  receiver_.poll();  // the first is matched and not ready: only the second is answered
  EXPECT_TRUE(sender_.withdraw(first_send, false));
  receiver_.poll();
  EXPECT_TRUE(receiver_.done(*first));
  EXPECT_EQ(first->status.code(), StatusCode::kStalled) << first->status.message();
  sender_.poll();
  EXPECT_TRUE(receiver_.done(*second));
  EXPECT_EQ(received_[1], 2);
  EXPECT_FALSE(sender_.unsettled()) << "the receiver said that it has forgotten the first";
}

TEST_F(TransfersGivenUp, BeforeItIsReadyItWaitsForTheNextSend) {
  const auto gate = std::make_shared<hvd::engine::test::FenceGate>();
  const auto given_up = send(sent_[0]);
  const auto waiting = receive(received_[0], {Fence(gate)});
  sender_.poll();
  receiver_.poll();
  EXPECT_TRUE(sender_.withdraw(given_up, false));
  receiver_.poll();
  EXPECT_FALSE(receiver_.done(*waiting));
  const auto next = send(sent_[1]);
  gate->open = true;
  sender_.poll();
  receiver_.poll();
  sender_.poll();
  EXPECT_TRUE(receiver_.done(*waiting));
  EXPECT_TRUE(waiting->status.ok()) << waiting->status.message();
  EXPECT_EQ(received_[0], 2);
}

}  // namespace
}  // namespace hvd::engine::host::test
