// The loops behind the optimizers, on every instruction set that this processor can run.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "horovod_cpp/optim/rules.h"
#include "horovod_cpp/tensor/cpu_dispatch/table.h"
#include "horovod_cpp/tensor/random.h"

namespace hvd {
namespace optim {
namespace {

constexpr std::size_t kLength = 1037;  // no multiple of any register

template <typename T>
struct Arrays {
  explicit Arrays(std::size_t shift) {
    Generator generator(1);
    for (std::vector<T>* each : all()) {
      each->assign(shift, T{0});
      for (std::size_t i = 0; i < kLength; ++i) {
        each->push_back(static_cast<T>(generator.uniform() * 2 - (each == &param ? 1 : 0)));
      }
    }
  }
  std::vector<std::vector<T>*> all() { return {&param, &grad, &a, &b, &c}; }
  std::vector<T> param, grad, a, b, c;
};

// Runs one rule twice; the bits of all that it may have written, without the shift.
template <typename T, typename Run>
std::vector<T> result_of(Isa isa, std::size_t shift, const Run& run) {
  Arrays<T> arrays(shift);
  for (int step = 0; step < 2; ++step) run(update_table(isa).of<T>(), arrays, shift);
  std::vector<T> result;
  for (std::vector<T>* each : arrays.all()) {
    result.insert(result.end(), each->begin() + static_cast<std::ptrdiff_t>(shift), each->end());
  }
  return result;
}

template <typename T, typename Run>
void expect_equal_everywhere(const char* rule, const Run& run) {
  const Isa first = isa::available().front()->instructions;
  const std::vector<T> expected = result_of<T>(first, 0, run);
  EXPECT_NE(expected, result_of<T>(first, 0, [](auto&&...) {})) << rule;
  for (const isa::Table* level : isa::available()) {
    for (const std::size_t shift : {0u, 1u, 7u}) {
      const std::vector<T> given = result_of<T>(level->instructions, shift, run);
      EXPECT_EQ(std::memcmp(given.data(), expected.data(), expected.size() * sizeof(T)), 0)
          << rule << " " << name_of(level->instructions) << " shifted by " << shift;
    }
  }
}

template <typename T>
class Rules : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(Rules, FloatTypes);

constexpr auto kCount = static_cast<std::int64_t>(kLength);

TYPED_TEST(Rules, GiveTheSameBitsOnEveryInstructionSet) {
  using T = TypeParam;
  const auto t = [](double value) { return static_cast<T>(value); };
  for (const bool nesterov : {false, true}) {
    const engine::SgdRule<T> sgd = {T{-1}, t(0.1), t(0.9), t(0.7), t(0.01), nesterov};
    expect_equal_everywhere<T>("sgd", [&](const auto& updates, auto& x, std::size_t at) {
      updates.sgd(sgd, kCount, &x.param[at], &x.grad[at], nesterov ? &x.a[at] : nullptr);
      updates.sgd(sgd, kCount, &x.param[at], &x.grad[at], &x.a[at]);
    });
  }
  const engine::AdamRule<T> adam = {T{1},    t(0.9),   t(0.99), t(0.1),  t(0.01),
                                    t(0.02), t(0.141), t(1e-8), t(0.01), t(0.999)};
  const RmspropRule<T> rmsprop = {T{1}, t(0.01), t(0.9), t(0.1), t(1e-8), t(0.01), t(0.9)};
  for (const bool whole : {false, true}) {
    expect_equal_everywhere<T>("adam", [&](const auto& updates, auto& x, std::size_t at) {
      updates.adam(adam, kCount, &x.param[at], &x.grad[at], &x.a[at], &x.b[at],
                   whole ? &x.c[at] : nullptr);
    });
    for (const bool momentum : {false, true}) {
      expect_equal_everywhere<T>("rmsprop", [&](const auto& updates, auto& x, std::size_t at) {
        updates.rmsprop(rmsprop, kCount, &x.param[at], &x.grad[at], &x.a[at],
                        whole ? &x.b[at] : nullptr, momentum ? &x.c[at] : nullptr);
      });
    }
  }
  const AdagradRule<T> adagrad = {T{-1}, t(0.1), t(1e-10), t(0.01)};
  expect_equal_everywhere<T>("adagrad", [&](const auto& updates, auto& x, std::size_t at) {
    updates.adagrad(adagrad, kCount, &x.param[at], &x.grad[at], &x.a[at]);
  });
  const AdadeltaRule<T> adadelta = {T{1}, t(1), t(0.9), t(0.1), t(1e-6), t(0.01)};
  expect_equal_everywhere<T>("adadelta", [&](const auto& updates, auto& x, std::size_t at) {
    updates.adadelta(adadelta, kCount, &x.param[at], &x.grad[at], &x.a[at], &x.b[at]);
  });
  const LambRule<T> lamb = {T{1},    t(0.1), t(0.9),   t(0.99), t(0.1),
                            t(0.01), t(0.1), t(0.141), t(1e-6), t(0.01)};
  expect_equal_everywhere<T>("lamb", [&](const auto& updates, auto& x, std::size_t at) {
    updates.lamb(lamb, kCount, &x.param[at], &x.grad[at], &x.a[at], &x.b[at]);
  });
}

}  // namespace
}  // namespace optim
}  // namespace hvd
