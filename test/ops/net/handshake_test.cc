#include "ops/net/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/net/secret.h"

namespace hvd::engine {
namespace {

using testing::HasSubstr;

using Fault = Handshake::Fault;
using State = Handshake::State;
using Terms = Handshake::Terms;

constexpr Terms kTerms = {HandshakeService::kControl, 0, 3};

class Handshakes : public testing::Test {
 protected:
  Handshake caller(const Terms& terms = kTerms, std::int32_t from = 2) const {
    return Handshake::caller(key_, terms, from);
  }
  Handshake listener(const Terms& terms = kTerms, Handshake::Admits admits = {}) const {
    return Handshake::listener(key_, terms, std::move(admits));
  }

  const JobKey key_ = draw_key();
};

// Until nobody has anything to say any more.
void talk(Handshake& a, Handshake& b) {
  while (true) {
    const Bytes forth = a.take_output();
    b.take(forth);
    const Bytes back = b.take_output();
    a.take(back);
    if (forth.empty() && back.empty()) return;
  }
}

TEST_F(Handshakes, OfTwoThatKnowTheKeyAreDone) {
  Handshake a = caller();
  Handshake b = listener();
  EXPECT_EQ(b.from(), -1);
  talk(a, b);
  EXPECT_EQ(a.state(), State::kDone);
  EXPECT_EQ(b.state(), State::kDone);
  EXPECT_EQ(b.from(), 2);
}

TEST_F(Handshakes, HaveTheSizesThatTheirHeaderSaysAndCarryNoKey) {
  Handshake a = caller();
  Handshake b = listener();
  const Bytes hello = a.take_output();
  EXPECT_EQ(hello.size(), kHelloBytes);
  b.take(hello);
  const Bytes welcome = b.take_output();
  EXPECT_EQ(welcome.size(), kWelcomeBytes);
  a.take(welcome);
  const Bytes confirm = a.take_output();
  EXPECT_EQ(confirm.size(), kConfirmBytes);
  for (const Bytes* each : {&hello, &welcome, &confirm}) {
    EXPECT_EQ(std::search(each->begin(), each->end(), key_.begin(), key_.begin() + 8), each->end());
  }
}

TEST_F(Handshakes, TakeByteByByteAndLeaveWhatFollows) {
  Handshake a = caller();
  Handshake b = listener();
  for (const std::byte each : a.take_output()) EXPECT_EQ(b.take({&each, 1}), 1u);
  Bytes answer = b.take_output();
  for (const std::byte each : answer) EXPECT_EQ(a.take({&each, 1}), 1u);
  EXPECT_EQ(a.state(), State::kDone);
  Bytes confirm = a.take_output();
  confirm.resize(confirm.size() + 10);
  EXPECT_EQ(b.take(confirm), kConfirmBytes);
  EXPECT_EQ(b.state(), State::kDone);
  EXPECT_EQ(b.take(confirm), 0u);
}

TEST_F(Handshakes, OfAnotherKeyFailAtTheCallerWhichThenSaysNothing) {
  Handshake a = Handshake::caller(draw_key(), kTerms, 2);
  Handshake b = listener();
  talk(a, b);
  EXPECT_EQ(a.state(), State::kFailed);
  EXPECT_EQ(a.fault(), Fault::kKey);
  EXPECT_THAT(a.why(), HasSubstr("does not know the key of this job"));
  EXPECT_EQ(b.state(), State::kGoing);
}

TEST_F(Handshakes, WithoutTheKeyNobodyConfirms) {
  Handshake a = caller();
  Handshake b = listener();
  b.take(a.take_output());
  b.take_output();
  b.take(Bytes(kConfirmBytes, std::byte{1}));
  EXPECT_EQ(b.state(), State::kFailed);
  EXPECT_EQ(b.fault(), Fault::kKey);
}

// What was recorded of a whole handshake is worth nothing to either end of another one.
TEST_F(Handshakes, CannotBeReplayed) {
  Handshake a = caller();
  Handshake b = listener();
  const Bytes hello = a.take_output();
  b.take(hello);
  const Bytes welcome = b.take_output();
  a.take(welcome);
  const Bytes confirm = a.take_output();
  b.take(confirm);
  ASSERT_EQ(b.state(), State::kDone);

  Handshake second = listener();
  second.take(hello);
  EXPECT_NE(second.take_output(), welcome);
  second.take(confirm);
  EXPECT_EQ(second.fault(), Fault::kKey);

  Handshake again = caller();
  EXPECT_NE(again.take_output(), hello);
  again.take(welcome);
  EXPECT_EQ(again.fault(), Fault::kKey);
}

// Somebody without the key has the two ends of one rank, or of two, answer each other's questions.
TEST_F(Handshakes, CannotBeReflected) {
  // A caller is given its own words back.
  Handshake a = caller();
  const Bytes hello = a.take_output();
  a.take(hello);
  a.take(Bytes(kWelcomeBytes - kHelloBytes));
  EXPECT_EQ(a.state(), State::kFailed);

  // A listener's own tag is no confirmation.
  Handshake b = listener();
  b.take(hello);
  const Bytes welcome = b.take_output();
  b.take(std::span(welcome).last(kConfirmBytes));
  EXPECT_EQ(b.fault(), Fault::kKey);

  // A confirmation of one connection does not do for another with the same hello.
  Handshake real = caller();
  Handshake first = listener();
  Handshake second = listener();
  const Bytes said = real.take_output();
  first.take(said);
  second.take(said);
  second.take_output();
  real.take(first.take_output());
  second.take(real.take_output());
  EXPECT_EQ(second.fault(), Fault::kKey);
}

TEST_F(Handshakes, OfOtherTermsAreRefusedAndTheCallerIsToldWhy) {
  const auto expect_refused = [&](const Terms& terms, const char* why) {
    Handshake a = caller(terms);
    Handshake b = listener();
    talk(a, b);
    EXPECT_EQ(a.fault(), Fault::kRefused) << why;
    EXPECT_EQ(b.fault(), Fault::kRefused) << why;
    EXPECT_THAT(a.why(), HasSubstr(why));
  };
  expect_refused({HandshakeService::kRunner, 0, 3}, "listens for something else");
  expect_refused({HandshakeService::kControl, 7, 3}, "is at epoch 0 of this job");
  expect_refused({HandshakeService::kControl, 0, 4}, "is not number 4");
}

TEST_F(Handshakes, AreForThoseWhomTheListenerWants) {
  std::int32_t asked = -1;
  Handshake a = caller();
  Handshake b = listener(kTerms, [&](std::int32_t from, HandshakeService) {
    asked = from;
    return false;
  });
  talk(a, b);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(b.fault(), Fault::kRefused);
  EXPECT_EQ(a.fault(), Fault::kRefused);
  EXPECT_THAT(a.why(), HasSubstr("does not expect number 2"));
}

// A refusal is believed only of who knows the key: nobody else can turn a rank away.
TEST_F(Handshakes, RefusalsOfUnauthenticatedPeersDoNotCount) {
  Handshake a = caller();
  Handshake peer = Handshake::listener(draw_key(), {kTerms.service, 9, kTerms.to}, {});
  talk(a, peer);
  EXPECT_EQ(a.fault(), Fault::kKey);
}

TEST_F(Handshakes, CoverEveryByteThatIsSaid) {
  Handshake recorded = caller();
  const Bytes hello = recorded.take_output();
  for (std::size_t at = 0; at < kHelloBytes; ++at) {
    Handshake a = recorded;
    Handshake b = listener();
    Bytes altered = hello;
    altered[at] ^= std::byte{0x10};
    b.take(altered);
    talk(a, b);
    EXPECT_NE(a.state(), State::kDone) << at;
    EXPECT_NE(b.state(), State::kDone) << at;
  }
  Handshake answering = listener();
  answering.take(hello);
  const Bytes welcome = answering.take_output();
  for (std::size_t at = 0; at < kWelcomeBytes; ++at) {
    Handshake a = recorded;
    Bytes altered = welcome;
    altered[at] ^= std::byte{0x10};
    a.take(altered);
    EXPECT_EQ(a.state(), State::kFailed) << at;
    EXPECT_TRUE(a.take_output().empty()) << at;
  }
  recorded.take(welcome);
  const Bytes confirm = recorded.take_output();
  for (std::size_t at = 0; at < kConfirmBytes; ++at) {
    Handshake b = answering;
    Bytes altered = confirm;
    altered[at] ^= std::byte{0x10};
    b.take(altered);
    EXPECT_EQ(b.state(), State::kFailed) << at;
  }
}

TEST_F(Handshakes, OfAnotherVersionSaySoOnBothSides) {
  Handshake a = caller();
  Handshake b = listener();
  Bytes hello = a.take_output();
  hello[4] = std::byte{2};
  b.take(hello);
  EXPECT_EQ(b.fault(), Fault::kVersion);
  EXPECT_THAT(b.why(), HasSubstr("version 2"));
  Bytes welcome = b.take_output();
  welcome[4] = std::byte{9};
  a.take(welcome);
  EXPECT_EQ(a.fault(), Fault::kVersion);
  EXPECT_THAT(a.why(), HasSubstr("version 9, this one's 1"));
}

TEST_F(Handshakes, WithAnotherProtocolFailAtItsFirstByte) {
  const std::string http = "GET / HTTP/1.1\r\n\r\n";
  for (Handshake each : {caller(), listener()}) {
    each.take_output();
    EXPECT_EQ(each.take(std::as_bytes(std::span(http))), http.size());
    EXPECT_EQ(each.fault(), Fault::kForeign);
    EXPECT_THAT(each.why(), HasSubstr("'GET / HTTP/1.1....'"));
    EXPECT_TRUE(each.take_output().empty());
  }
  Handshake b = listener();
  const std::byte x{'x'};
  b.take({&x, 1});
  EXPECT_EQ(b.fault(), Fault::kForeign);
}

TEST_F(Handshakes, CutShortGoOnWaiting) {
  const Bytes hello = caller().take_output();
  for (std::size_t cut = 0; cut < hello.size(); ++cut) {
    Handshake b = listener();
    b.take(std::span(hello).first(cut));
    EXPECT_EQ(b.state(), State::kGoing);
    EXPECT_TRUE(b.take_output().empty());
  }
}

// Whoever says more than a hello before it was welcomed cannot know what to confirm.
TEST_F(Handshakes, TooLongFailAndKeepNothing) {
  Bytes long_hello = caller().take_output();
  long_hello.resize(100'000);
  Handshake b = listener();
  EXPECT_EQ(b.take(long_hello), long_hello.size());
  EXPECT_EQ(b.fault(), Fault::kKey);
}

TEST_F(Handshakes, MeetAgainAtTheNextEpoch) {
  const Terms next = {kTerms.service, 1, kTerms.to};
  Handshake a = caller(next);
  Handshake b = listener(next);
  talk(a, b);
  EXPECT_EQ(a.state(), State::kDone);
  EXPECT_EQ(b.state(), State::kDone);
}

}  // namespace
}  // namespace hvd::engine
