#include "ops/net/secret.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace hvd::engine {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hex(const Sha256Digest& digest) {
  std::string text;
  for (const std::byte each : digest) {
    text += "0123456789abcdef"[std::to_integer<int>(each) / 16];
    text += "0123456789abcdef"[std::to_integer<int>(each) % 16];
  }
  return text;
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.add(bytes(text));
  return hex(hash.finish());
}

// FIPS 180-4's examples (NIST, SHA256.pdf and SHA2_Additional.pdf).
TEST(Sha256, OfTheExamplesOfItsStandard) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256("\xbd"), "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
  // Around the length at which a block more is needed.
  EXPECT_EQ(sha256(std::string(55, '\0')),
            "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
  EXPECT_EQ(sha256(std::string(56, '\0')),
            "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
  EXPECT_EQ(sha256(std::string(64, '\0')),
            "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
}

TEST(Sha256, IsTheSameHoweverTheBytesAreCut) {
  const std::string text(200, 'x');
  for (std::size_t step = 1; step <= text.size(); ++step) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += step) {
      hash.add(bytes(std::string_view(text).substr(at, step)));
    }
    ASSERT_EQ(hex(hash.finish()), sha256(text)) << "in steps of " << step;
  }
}

// RFC 4231, 4.2 to 4.8 (4.6 is of a truncated tag).
TEST(HmacSha256, OfTheExamplesOfItsStandard) {
  const auto hmac = [](std::string_view key, std::string_view text) {
    return hex(hmac_sha256(bytes(key), bytes(text)));
  };
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counting;
  for (char c = 1; c <= 25; ++c) counting += c;
  EXPECT_EQ(hmac(counting, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac(std::string(131, '\xaa'),
                 "This is a test using a larger than block-size key and a larger than block-size "
                 "data. The key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(HmacSha256, OfPartsIsThatOfTheWhole) {
  const std::vector<std::span<const std::byte>> parts = {bytes("what do ya "), bytes(""),
                                                         bytes("want for nothing?")};
  EXPECT_EQ(hmac_sha256(bytes("Jefe"), parts),
            hmac_sha256(bytes("Jefe"), bytes("what do ya want for nothing?")));
}

TEST(Secrets, DifferInAnyByte) {
  const JobKey key = draw_key();
  EXPECT_TRUE(same_secret(key, key));
  for (std::size_t i = 0; i < key.size(); ++i) {
    JobKey other = key;
    other[i] ^= std::byte{0x80};
    EXPECT_FALSE(same_secret(key, other));
  }
  EXPECT_FALSE(same_secret(key, std::span(key).first(31)));
  EXPECT_NE(draw_key(), draw_key());
}

}  // namespace
}  // namespace hvd::engine
