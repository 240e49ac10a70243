// PyTorch's scaler as a class: what it rejects, and what ranks find that agree on it.
#include <array>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/scaler/scaler_checks.hpp"
#include "reference/comm/errors.hpp"
#include "reference/scaler/found_inf.hpp"
#include "reference/scaler/grad_scaler.hpp"

namespace plumbline::conformance {

using scaler::GradScaler;
using scaler::GradScalerState;
using suite::Context;

namespace {

std::array<comm::Buffer, 1> view_of(std::vector<float>& gradient) {
  return {comm::Buffer{gradient.data(), std::ssize(gradient), comm::DType::f32}};
}

// ---- what is rejected ----

// One that has scaled a loss by 8, and looked at a gradient.
GradScaler looking(bool as_torch) {
  GradScaler scaler({.rule = {.init_scale = 8, .growth_interval = 5}, .as_torch = as_torch});
  EXPECT_EQ(scaler.scaled(2), 16);
  std::vector<float> gradient{8};
  scaler.unscale(0, view_of(gradient));
  EXPECT_EQ(gradient.front(), 1);
  return scaler;
}

void given_scale_is_refused(Context& context) {
  const bool is_right = context.parameters().text("scale") == "right";
  for (const bool as_torch : {false, true}) {
    GradScaler scaler = looking(as_torch);
    (void)scaler.step(0, {}, [] {});
    scaler.update();
    std::vector<float> gradient{8};
    scaler.unscale(0, view_of(gradient));
    const GradScalerState before = scaler.state();
    EXPECT_EQ(before.growth_tracker, 1) << "SCALER-126: the count, after a clean step";
    for (const double scale : {0.0, -1.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 1e39, 1e-60}) {
      if (is_right || as_torch) continue;
      EXPECT_THROW(scaler.update(scale), InvalidArgument) << "SCALER-126: " << scale;
      EXPECT_EQ(scaler.scale(), 8) << "SCALER-126: " << scale;
      EXPECT_EQ(scaler.state(), before) << "SCALER-126: scale and count, after " << scale;
      EXPECT_EQ(scaler.found_inf(0), 0.0F) << "SCALER-126: what was looked at, after " << scale;
    }
    scaler.update(0.25);
    EXPECT_EQ(scaler.scale(), 0.25) << "SCALER-126";
    EXPECT_EQ(scaler.found_inf(0), std::nullopt) << "SCALER-126";
  }
  GradScaler without({.rule = {.init_scale = 8}});
  without.load({.scale = 4, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 5, .growth_tracker = 2});
  const GradScalerState before = without.state();
  EXPECT_THROW(without.update(2), StateError) << "SCALER-126: before a loss was scaled";
  EXPECT_EQ(without.state(), before) << "SCALER-126: scale and count, after one given before a loss was scaled";
  EXPECT_EQ(before.growth_tracker, 2) << "SCALER-126: the count that was loaded";
  EXPECT_EQ(without.scaled(1), 4) << "SCALER-126: the scale, when a loss is scaled after that";
}

// States that a scaler by our rules cannot have.
std::vector<GradScalerState> wrong_states(const GradScalerState& right) {
  std::vector<GradScalerState> list;
  const auto add = [&](auto GradScalerState::* field, auto values) {
    for (const auto value : values) {
      list.push_back(right);
      list.back().*field = value;
    }
  };
  add(&GradScalerState::scale, std::array{-1.0, HUGE_VAL, std::nan(""), 1e39});
  add(&GradScalerState::growth_factor, std::array{1.0, 0.5, -2.0, HUGE_VAL, std::nan("")});
  add(&GradScalerState::backoff_factor, std::array{0.0, 1.0, 2.0, -0.5, std::nan("")});
  add(&GradScalerState::growth_interval, std::array<std::int64_t, 2>{0, -3});
  add(&GradScalerState::growth_tracker, std::array<std::int64_t, 2>{-1, -4});
  return list;
}

void scaler_states(Context& context) {
  const bool is_right = context.parameters().text("state") == "right";
  const GradScalerState right{
      .scale = 4, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 2, .growth_tracker = 1};
  GradScalerState fallen = right;
  fallen.scale = 0;
  for (const GradScalerState& state : {fallen, right}) {
    GradScaler scaler = looking(false);
    scaler.load(state);
    EXPECT_EQ(scaler.state(), state) << "SCALER-127";
  }
  GradScaler scaler = looking(false);
  scaler.load(right);
  for (const GradScalerState& wrong : wrong_states(right)) {
    if (is_right) {
      EXPECT_NO_THROW(looking(true).load(wrong)) << "SCALER-127: PyTorch looks at no state";
      continue;
    }
    EXPECT_THROW(scaler.load(wrong), InvalidArgument)
        << fmt::format("SCALER-127: scale {}, factors {} and {}, interval {}, count {}", wrong.scale,
                       wrong.growth_factor, wrong.backoff_factor, wrong.growth_interval, wrong.growth_tracker);
    EXPECT_EQ(scaler.state(), right) << "SCALER-127: after a state that is rejected";
  }
  // One clean step more ends the interval of the state that was loaded.
  std::vector<float> gradient{4};
  EXPECT_TRUE(scaler.step(1, view_of(gradient), [] {})) << "SCALER-127";
  scaler.update();
  EXPECT_EQ(scaler.scale(), 12) << "SCALER-127";
  EXPECT_THROW((void)GradScaler({.enabled = false}).state(), StateError) << "SCALER-127: a disabled scaler has none";
}

// ---- what ranks agree on ----

void ranks_agree(Context& context) {
  comm::Communicator& world = context.world();
  const std::string found = context.parameters().text("found");
  int calls = 0;
  GradScaler scaler({.rule = {.init_scale = 8, .growth_interval = 100}, .agree = [&](std::span<float> flags) {
                       ++calls;
                       scaler::agree_on_found_inf(world, flags, {});
                     }});
  EXPECT_EQ(scaler.scaled(1), 8);
  // In the second step nobody finds anything. Of several ranks, the first has no gradients.
  for (const bool is_bad_step : {true, false}) {
    const bool is_bad = is_bad_step && found == "last" && world.rank() + 1 == world.size();
    const double before = scaler.scale();
    std::vector<float> gradient{is_bad ? HUGE_VALF : 8.0F};
    std::vector<comm::Buffer> gradients;
    if (world.rank() > 0 || world.size() == 1) gradients.push_back(view_of(gradient).front());
    int applied = 0;
    const bool skips = is_bad_step && found == "last";
    EXPECT_EQ(scaler.step(3, gradients, [&] { ++applied; }), !skips) << "SCALER-128";
    EXPECT_EQ(applied, skips ? 0 : 1) << "SCALER-128";
    EXPECT_EQ(scaler.found_inf(3), skips ? 1.0F : 0.0F) << "SCALER-128";
    scaler.update();
    EXPECT_EQ(scaler.scale(), skips ? before / 2 : before) << "SCALER-128";
  }
  EXPECT_EQ(calls, 2) << "SCALER-128: agreements of two steps";
}

}  // namespace

void add_grad_scaler_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, suite::Axis axis, void (*body)(Context&)) {
    suite.add({.id = std::string("scaler.ranks.") + name,
               .verifies = {requirement},
               .axes = {std::move(axis), suite::worlds({1, 2, 3})},
               .body = body});
  };
  add("given_scale_is_refused", "SCALER-126@bf05", {"scale", {"right", "wrong"}}, given_scale_is_refused);
  add("states", "SCALER-127@d689", {"state", {"right", "wrong"}}, scaler_states);
  add("agree", "SCALER-128@61fe", {"found", {"nobody", "last"}}, ranks_agree);
}

}  // namespace plumbline::conformance
