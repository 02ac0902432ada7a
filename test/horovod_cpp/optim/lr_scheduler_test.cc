// Schedules against the sequences that PyTorch's give (test/support/reference/optim.py).
#include "horovod_cpp/optim/lr_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/status.h"
#include "horovod_cpp/optim/optimizers.h"
#include "test/horovod_cpp/optim/optim_reference.h"
#include "test/support/message_of.h"

namespace hvd {
namespace optim {
namespace lr_scheduler {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::vector<ParamGroup> two_groups() {
  return {{{Tensor::zeros({1})}, {}}, {{Tensor::zeros({1})}, {{"lr", 0.02}}}};
}

SGD make_sgd() {
  return SGD(two_groups(), {.lr = 0.5, .momentum = 0.9});
}

using Make = std::function<std::shared_ptr<LRScheduler>(Optimizer&)>;

template <typename Scheduler, typename... Args>
Make maker(Args... args) {
  return [=](Optimizer& optimizer) { return std::make_shared<Scheduler>(optimizer, args...); };
}

Make warm_then(const Make& after, std::int64_t start) {
  return [=](Optimizer& optimizer) {
    std::vector<std::shared_ptr<LRScheduler>> parts = {
        std::make_shared<LinearLR>(optimizer, 0.25, 1, 3), after(optimizer)};
    return std::make_shared<SequentialLR>(optimizer, parts, std::vector<std::int64_t>{start});
  };
}

struct Case {
  std::string name;  // in optim.safetensors
  Make make;
};

void PrintTo(const Case& instance, std::ostream* out) {
  *out << instance.name;
}

OneCycleLROptions three_phase() {
  return {.max_lr = {0.7}, .total_steps = 14, .base_momentum = 0.5, .three_phase = true};
}

OneCycleLROptions straight() {
  return {.max_lr = {0.7},
          .total_steps = 14,
          .pct_start = 0.25,
          .anneal_strategy = AnnealStrategy::kLinear,
          .div_factor = 10,
          .final_div_factor = 100};
}

std::vector<Case> cases() {
  const std::vector<LambdaLR::Function> lambdas = {
      [](std::int64_t epoch) { return 1.0 / static_cast<double>(1 + epoch); },
      [](std::int64_t epoch) { return std::pow(0.95, static_cast<double>(epoch)); }};
  return {
      {"schedule_step", maker<StepLR>(3, 0.5)},
      {"schedule_multi_step", maker<MultiStepLR>(std::vector<std::int64_t>{2, 5, 11}, 0.3)},
      {"schedule_exponential", maker<ExponentialLR>(0.9)},
      {"schedule_cosine", maker<CosineAnnealingLR>(5, 0.01)},
      {"schedule_linear", maker<LinearLR>(0.1, 0.8, 6)},
      {"schedule_lambda", maker<LambdaLR>(lambdas)},
      {"schedule_sequential_cosine", warm_then(maker<CosineAnnealingLR>(8), 3)},
      {"schedule_sequential_step", warm_then(maker<StepLR>(4), 5)},
      {"one_cycle_cos", maker<OneCycleLR>(OneCycleLROptions{.max_lr = {1, 2}, .total_steps = 14})},
      {"one_cycle_linear", maker<OneCycleLR>(straight())},
      {"one_cycle_three_phase", maker<OneCycleLR>(three_phase())},
  };
}

class Schedule : public ::testing::TestWithParam<Case> {};

std::vector<double> options_of(Optimizer& optimizer, const std::string& name) {
  std::vector<double> values;
  for (const ParamGroup& group : optimizer.param_groups()) values.push_back(group.options.at(name));
  return values;
}

TEST_P(Schedule, GivesPyTorchsSequence) {
  SGD sgd = make_sgd();
  const auto scheduler = GetParam().make(sgd);
  const Tensor expected = optim_reference(GetParam().name + "/lr");
  for (std::int64_t epoch = 0; epoch < expected.size(0); ++epoch) {
    if (epoch > 0) scheduler->step();
    EXPECT_EQ(scheduler->last_epoch(), epoch);
    ASSERT_THAT(options_of(sgd, "lr"),
                Pointwise(DoubleNear(1e-14), expected.select(0, epoch).to_vector()))
        << "epoch " << epoch;
    EXPECT_EQ(scheduler->get_last_lr(), options_of(sgd, "lr"));
    EXPECT_EQ(scheduler->lr_at(epoch, 1), sgd.param_groups()[1].options.at("lr"));
  }
}

TEST_P(Schedule, GoesOnFromItsStateBitForBit) {
  SGD whole = make_sgd();
  const auto uninterrupted = GetParam().make(whole);
  SGD first = make_sgd();
  const auto before = GetParam().make(first);
  for (int epoch = 0; epoch < 5; ++epoch) {
    uninterrupted->step();
    before->step();
  }
  SGD second(two_groups(), {.lr = 123, .momentum = 0.9});  // not even the same learning rate
  const auto after = GetParam().make(second);
  after->load_state_dict(before->state_dict());
  for (int epoch = 5; epoch < 13; ++epoch) {
    EXPECT_EQ(options_of(whole, "lr"), options_of(second, "lr")) << epoch;
    EXPECT_EQ(options_of(whole, "momentum"), options_of(second, "momentum")) << epoch;
    uninterrupted->step();
    after->step();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Schedule, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

TEST(OneCycleLR, MovesTheMomentumTheOtherWayAsPyTorch) {
  for (const auto& [name, options] :
       {std::pair{"cos", OneCycleLROptions{.max_lr = {1, 2}, .total_steps = 14}},
        {"linear", straight()},
        {"three_phase", three_phase()}}) {
    SGD sgd = make_sgd();
    Adam adam(two_groups(), {.lr = 0.5});
    OneCycleLR of_sgd(sgd, options);
    OneCycleLR of_adam(adam, options);
    const std::string key = std::string("one_cycle_") + name + "/";
    for (std::int64_t epoch = 0; epoch < 14; ++epoch) {
      const auto expected = [&](const char* option) {
        return optim_reference(key + option).select(0, epoch).to_vector();
      };
      ASSERT_THAT(options_of(sgd, "momentum"), Pointwise(DoubleNear(1e-14), expected("momentum")));
      ASSERT_THAT(options_of(adam, "beta1"), Pointwise(DoubleNear(1e-14), expected("betas")));
      of_sgd.step();
      of_adam.step();
    }
  }
}

TEST(OneCycleLR, EndsAfterItsSteps) {
  SGD sgd = make_sgd();
  OneCycleLR scheduler(sgd, {.max_lr = {1}, .total_steps = 3});
  for (int step = 0; step < 3; ++step) scheduler.step();
  const double last = sgd.param_groups()[0].options.at("lr");
  EXPECT_NEAR(last, 1 / 25.0 / 1e4, 1e-12);
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { scheduler.step(); }),
              HasSubstr("epoch 4 is beyond the total of 3 steps"));
  EXPECT_EQ(scheduler.last_epoch(), 3);
  EXPECT_EQ(sgd.param_groups()[0].options.at("lr"), last);
}

TEST(OneCycleLR, LeavesTheMomentumAloneIfAsked) {
  SGD sgd = make_sgd();
  OneCycleLR scheduler(sgd, {.max_lr = {1}, .total_steps = 3, .cycle_momentum = false});
  scheduler.step();
  EXPECT_THAT(options_of(sgd, "momentum"), ElementsAre(0.9, 0.9));
}

TEST(ReduceLROnPlateau, GivesPyTorchsSequences) {
  const std::vector<std::pair<std::string, ReduceLROnPlateauOptions>> all = {
      {"plateau_min_rel", {.factor = 0.5, .patience = 2}},
      {"plateau_min_abs",
       {.factor = 0.1,
        .patience = 1,
        .threshold = 0.5,
        .threshold_mode = ThresholdMode::kAbs,
        .cooldown = 2,
        .min_lr = {0.01, 0.005}}},
      {"plateau_max_rel", {.mode = PlateauMode::kMax, .factor = 0.5, .patience = 3, .eps = 1e-3}},
      {"plateau_max_abs",
       {.mode = PlateauMode::kMax,
        .factor = 0.9,
        .patience = 0,
        .threshold_mode = ThresholdMode::kAbs}}};
  const std::vector<double> metrics = optim_reference("plateau/metrics").to_vector();
  for (const auto& [name, options] : all) {
    SGD sgd = make_sgd();
    ReduceLROnPlateau scheduler(sgd, options);
    SGD other = make_sgd();
    std::optional<ReduceLROnPlateau> resumed;
    for (std::size_t epoch = 0; epoch < metrics.size(); ++epoch) {
      scheduler.step(metrics[epoch]);
      if (resumed) resumed->step(metrics[epoch]);
      const auto row = static_cast<std::int64_t>(epoch);
      ASSERT_THAT(
          options_of(sgd, "lr"),
          Pointwise(DoubleNear(1e-14), optim_reference(name + "/lr").select(0, row).to_vector()))
          << name << " epoch " << epoch;
      if (epoch == 7) {
        resumed.emplace(other, options);
        resumed->load_state_dict(scheduler.state_dict());
      }
      if (resumed) {
        EXPECT_EQ(options_of(other, "lr"), options_of(sgd, "lr"));
      }
    }
  }
}

TEST(ReduceLROnPlateau, RefusesOptionsAndStatesThatDoNotFit) {
  SGD sgd = make_sgd();
  const auto refused = [&](const ReduceLROnPlateauOptions& options) {
    return message_of<InvalidArgumentError>([&] { ReduceLROnPlateau(sgd, options); });
  };
  EXPECT_THAT(refused({.factor = 1}), HasSubstr("factor 1"));
  EXPECT_THAT(refused({.patience = -1}), HasSubstr("patience -1"));
  EXPECT_THAT(refused({.threshold = 1}), HasSubstr("threshold 1"));
  EXPECT_THAT(refused({.cooldown = -1}), HasSubstr("cooldown -1"));
  EXPECT_THAT(refused({.min_lr = {-1}}), HasSubstr("min_lr -1"));
  EXPECT_THAT(refused({.min_lr = {1, 1, 1}}), HasSubstr("min_lr: a list of 3"));
  EXPECT_THAT(refused({.eps = std::nan("")}), HasSubstr("eps nan"));
  ReduceLROnPlateau scheduler(sgd, {});
  NamedTensors state = scheduler.state_dict();
  state.pop_back();
  sgd.param_groups()[0].options["lr"] = 7;
  EXPECT_THAT(message_of<InvalidArgumentError>([&] { scheduler.load_state_dict(state); }),
              HasSubstr("schedule state: 'lr.1' is missing"));
  EXPECT_EQ(sgd.param_groups()[0].options.at("lr"), 7);
}

TEST(LearningRateWarmup, GoesFromOneRanksRateToThatOfAllByBatch) {
  SGD sgd = make_sgd();
  LearningRateWarmup scheduler(sgd, {.scale = 4, .warmup_epochs = 2, .steps_per_epoch = 3});
  std::vector<double> rates;
  for (int step = 0; step < 8; ++step) {
    rates.push_back(sgd.param_groups()[0].options.at("lr"));
    scheduler.step();
  }
  // 0.5 * (1 + 3 * passes / 2), passes = 1/3, 2/3, ...
  EXPECT_THAT(rates, Pointwise(DoubleNear(1e-15), {0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.0, 2.0}));
}

TEST(LearningRateWarmup, MultipliesTheScheduleThatItIsGiven) {
  SGD sgd = make_sgd();
  auto steps = std::make_shared<MultiStepLR>(sgd, std::vector<std::int64_t>{1, 3}, 0.5);
  LearningRateWarmup scheduler(sgd, {.scale = 3, .warmup_epochs = 2}, steps);
  std::vector<double> rates;
  for (int step = 0; step < 4; ++step) {
    rates.push_back(sgd.param_groups()[0].options.at("lr"));
    scheduler.step();
  }
  EXPECT_THAT(rates, ElementsAre(0.5 * 2, 0.25 * 3, 0.25 * 3, 0.125 * 3));
  EXPECT_EQ(LearningRateWarmup(sgd, {.scale = 3, .warmup_epochs = 0}).lr_at(0, 0), 1.5);
}

TEST(LearningRateWarmup, KeepsTheMomentumOfItsSchedule) {
  SGD sgd = make_sgd();
  auto cycle = std::make_shared<OneCycleLR>(
      sgd, OneCycleLROptions{.max_lr = {1}, .total_steps = 10, .base_momentum = 0.5});
  LearningRateWarmup scheduler(sgd, {.scale = 2, .warmup_epochs = 2}, cycle);
  scheduler.step();
  scheduler.step();
  EXPECT_EQ(sgd.param_groups()[0].options.at("momentum"), cycle->options_at(2, 0).at("momentum"));
  EXPECT_EQ(sgd.param_groups()[0].options.at("lr"), 2 * cycle->lr_at(2, 0));
}

TEST(LRScheduler, StartsALaterGroupFromTheRateItHas) {
  SGD sgd = make_sgd();
  StepLR scheduler(sgd, 1, 0.5);
  scheduler.step();
  sgd.add_param_group({{Tensor::zeros({1})}, {{"lr", 8}}});
  scheduler.step();
  EXPECT_THAT(options_of(sgd, "lr"), ElementsAre(0.125, 0.005, 2));
}

TEST(LRScheduler, ChangesNothingWhenAStateDoesNotFit) {
  SGD sgd = make_sgd();
  StepLR scheduler(sgd, 1, 0.5);
  scheduler.step();
  const NamedTensors good = scheduler.state_dict();
  const auto error = [&](const std::function<void(NamedTensors&)>& spoil) {
    NamedTensors bad;
    for (const auto& [name, tensor] : good) bad.emplace_back(name, tensor.clone());
    bad[1].second.fill_(99);
    spoil(bad);
    const auto text = message_of<InvalidArgumentError>([&] { scheduler.load_state_dict(bad); });
    EXPECT_EQ(scheduler.last_epoch(), 1);
    EXPECT_EQ(scheduler.lr_at(0, 0), 0.5);
    EXPECT_THAT(options_of(sgd, "lr"), ElementsAre(0.25, 0.01));
    return text;
  };
  EXPECT_THAT(error([](NamedTensors& s) { s.erase(s.begin()); }),
              HasSubstr("schedule state: 'last_epoch' is missing"));
  EXPECT_THAT(error([](NamedTensors& s) { s[0].second.fill_(-1); }), HasSubstr("is -1"));
  EXPECT_THAT(error([](NamedTensors& s) { s.pop_back(); }), HasSubstr("'initial_lr.1' is missing"));
  EXPECT_THAT(error([](NamedTensors& s) { s.emplace_back("x", Tensor::scalar(1)); }),
              HasSubstr("'x' is unexpected"));
  OneCycleLR cycle(sgd, {.max_lr = {1}, .total_steps = 3});
  NamedTensors beyond = cycle.state_dict();
  beyond[0].second.fill_(4);
  EXPECT_THROW(cycle.load_state_dict(beyond), InvalidArgumentError);
  EXPECT_EQ(cycle.last_epoch(), 0);
}

TEST(LRScheduler, RefusesArgumentsOutOfRangeAndTouchesNoOption) {
  SGD sgd = make_sgd();
  SGD other = make_sgd();
  const auto refused = [&](const Make& make) {
    const auto text = message_of<InvalidArgumentError>([&] { make(sgd); });
    EXPECT_THAT(options_of(sgd, "lr"), ElementsAre(0.5, 0.02));
    return text;
  };
  const auto at = [](std::vector<std::int64_t> milestones) { return milestones; };
  EXPECT_THAT(refused(maker<StepLR>(0)), HasSubstr("StepLR: step_size 0"));
  EXPECT_THAT(refused(maker<StepLR>(1, -0.5)), HasSubstr("gamma -0.5"));
  EXPECT_THAT(refused(maker<MultiStepLR>(at({3, 3}))), HasSubstr("milestone 3 after 3"));
  EXPECT_THAT(refused(maker<MultiStepLR>(at({0}))), HasSubstr("milestone 0 after 0"));
  EXPECT_THAT(refused(maker<ExponentialLR>(std::nan(""))), HasSubstr("gamma nan"));
  EXPECT_THAT(refused(maker<CosineAnnealingLR>(0)), HasSubstr("t_max 0"));
  EXPECT_THAT(refused(maker<CosineAnnealingLR>(1, -1.0)), HasSubstr("eta_min -1"));
  EXPECT_THAT(refused(maker<LinearLR>(0.0)), HasSubstr("start_factor 0"));
  EXPECT_THAT(refused(maker<LinearLR>(0.5, 2.0)), HasSubstr("end_factor 2"));
  EXPECT_THAT(refused(maker<LinearLR>(0.5, 1.0, 0)), HasSubstr("total_iters 0"));
  EXPECT_THAT(refused(maker<LambdaLR>(std::vector<LambdaLR::Function>(1))),
              HasSubstr("1 functions for 2 parameter groups"));
  EXPECT_THAT(refused(maker<LambdaLR>(LambdaLR::Function())), HasSubstr("no function"));
  const auto cycle = [](auto change) {
    OneCycleLROptions options = {.max_lr = {1}, .total_steps = 10};
    change(options);
    return maker<OneCycleLR>(options);
  };
  EXPECT_THAT(refused(cycle([](auto& o) { o.max_lr = {1, 1, 1}; })), HasSubstr("3 values of max"));
  EXPECT_THAT(refused(cycle([](auto& o) { o.max_lr = {-1}; })), HasSubstr("max_lr -1"));
  EXPECT_THAT(refused(cycle([](auto& o) { o.total_steps = 1; })), HasSubstr("total_steps 1"));
  EXPECT_THAT(refused(cycle([](auto& o) { o.pct_start = 1.5; })), HasSubstr("pct_start 1.5"));
  EXPECT_THAT(refused(cycle([](auto& o) { o.div_factor = 0; })), HasSubstr("div_factor 0"));
  EXPECT_THAT(refused(cycle([](auto& o) { o.base_momentum = 1; })), HasSubstr("base_momentum 1"));
  EXPECT_THAT(refused(maker<LearningRateWarmup>(LearningRateWarmupOptions{.scale = 0})),
              HasSubstr("scale 0"));
  EXPECT_THAT(refused(maker<LearningRateWarmup>(LearningRateWarmupOptions{.warmup_epochs = -1})),
              HasSubstr("warmup_epochs -1"));
  EXPECT_THAT(refused(maker<LearningRateWarmup>(LearningRateWarmupOptions{.steps_per_epoch = 0})),
              HasSubstr("steps_per_epoch 0"));
  RMSprop rmsprop(two_groups());
  EXPECT_NO_THROW(OneCycleLR(rmsprop, {.max_lr = {1}, .total_steps = 3}));
  using Parts = std::vector<std::shared_ptr<LRScheduler>>;
  const Parts foreign = {std::make_shared<StepLR>(other, 1)};
  EXPECT_THAT(refused(maker<SequentialLR>(foreign, at({}))), HasSubstr("of another optimizer"));
  EXPECT_THAT(refused(maker<SequentialLR>(foreign, at({1}))), HasSubstr("1 schedules and 1"));
  EXPECT_THAT(refused(maker<LearningRateWarmup>(LearningRateWarmupOptions{}, foreign[0])),
              HasSubstr("of another optimizer"));
}

}  // namespace
}  // namespace lr_scheduler
}  // namespace optim
}  // namespace hvd
