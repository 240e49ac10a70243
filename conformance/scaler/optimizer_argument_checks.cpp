// Unscaling, and what an optimizer with 16-bit parameters takes: types, counts and states, each rejected beside one
// that is taken.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/element.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/recording.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/scaler/fp16_optimizer.hpp"
#include "reference/scaler/unscale_table.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;
using scaler::Fp16Optimizer;
using scaler::Fp16Options;
using suite::Context;

namespace {

constexpr std::array kFloating{DType::f16, DType::bf16, DType::f32, DType::f64};

// Memory of one type, written and read as f64, rounded by the formats' definitions.
class Values {
 public:
  Values(DType dtype, std::size_t count) : dtype_(dtype), count_(count), bytes_(count * comm::size_of(dtype)) {}

  [[nodiscard]] Buffer buffer() { return {bytes_.data(), static_cast<std::int64_t>(count_), dtype_}; }
  void set(std::size_t i, double value) { put_bits(dtype_, &bytes_[i * size()], nearest_bits(dtype_, value)); }
  /// The first `period` elements again and again.
  void repeat(std::size_t period) {
    for (std::size_t byte = period * size(); byte < bytes_.size(); ++byte)
      bytes_[byte] = bytes_[byte - period * size()];
  }
  [[nodiscard]] double at(std::size_t i) const {
    return static_cast<double>(number_of(dtype_, bits_at(dtype_, &bytes_[i * size()])));
  }
  friend bool operator==(const Values&, const Values&) = default;

 private:
  [[nodiscard]] std::size_t size() const { return comm::size_of(dtype_); }
  DType dtype_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

bool go_together(DType from, DType to) {
  const bool is_half = from == DType::f16 || from == DType::bf16;
  return std::ranges::count(kFloating, from) > 0 && (from == to || (is_half && to == DType::f32));
}

// ---- unscaling ----

// By the host's loops, or by what the threads of a device's launches do, one after the other.
enum class By { loops, launches };

bool unscaled(std::span<const scaler::Unscaling> list, float inverse, By by) {
  if (by == By::loops) return unscale(list, inverse);
  constexpr int threads = 64;
  float found = 0;
  for (const scaler::UnscaleWork& work : scaler::unscale_work(list, inverse, &found, {}))
    for (std::int32_t chunk = 0; chunk < work.table.chunks; ++chunk)
      for (int thread = 0; thread < threads; ++thread) work(chunk, thread, threads);
  return found != 0;
}

// The product with 0.375 of a number of at most 20 bits is exact in f32: what is stored is it, rounded once.
constexpr double kInverse = 0.375;

void expect_unscaled(DType from, DType to, std::size_t count, bool in_place, By by, Random& random) {
  Values given(from, count), place(to, count);
  const std::size_t period = std::min<std::size_t>(count, 1009);  // a prime: an element in another's place shows
  for (std::size_t i = 0; i < period; ++i)
    given.set(i, random.between(-(1 << 19), 1 << 19) / (from == DType::f16 ? 64.0 : 1024.0));
  given.repeat(period);
  const Values before = given;
  Values& result = in_place ? given : place;
  const std::array list{scaler::Unscaling{given.buffer(), result.buffer()}};
  EXPECT_FALSE(unscaled(list, static_cast<float>(kInverse), by)) << "SCALER-114: all elements are finite";
  Values expected(to, count);
  for (std::size_t i = 0; i < period; ++i) expected.set(i, before.at(i) * kInverse);
  expected.repeat(period);
  EXPECT_EQ(result, expected) << fmt::format("SCALER-114: {} elements of {} to {}{}", count, comm::name_of(from),
                                             comm::name_of(to), in_place ? " in place" : "");
  if (!in_place) {
    EXPECT_EQ(given, before) << "SCALER-114: the gradient itself";
  }
}

void unscaled_is_rounded_once(Context& context) {
  Random random(context.seed());
  const By by = context.parameters().text("by") == "loops" ? By::loops : By::launches;
  const bool has_many = context.parameters().text("elements") == "many";
  std::vector<std::size_t> counts(40);
  std::iota(counts.begin(), counts.end(), 0);
  // More than caches hold, or than one block of a launch does.
  if (has_many) counts = {by == By::loops ? (std::size_t{8} << 20) + 5 : 100'000};
  for (const DType from : kFloating)
    for (const DType to : kFloating) {
      if (!go_together(from, to) || (has_many && to != DType::f32)) continue;
      for (const std::size_t count : counts) {
        expect_unscaled(from, to, count, false, by, random);
        if (from == to && !has_many) expect_unscaled(from, to, count, true, by, random);
      }
    }
}

// Of two gradients, the one at `position` is wrong in something.
void expect_refused(DType from, DType to, const std::string& what, std::size_t position, By by) {
  Values right(DType::f32, 3), given(from, 3), place(to, 3);
  for (std::size_t i = 0; i < 3; ++i) right.set(i, 2), given.set(i, 2);
  const Values before = right, place_before = place;
  std::array list{scaler::Unscaling{right.buffer(), right.buffer()}, scaler::Unscaling{given.buffer(), place.buffer()}};
  scaler::Unscaling& wrong = list[1];
  if (what == "counts") wrong.to.count = 2;
  if (what == "counts_above") wrong.to.count = 4;
  if (what == "from_device") wrong.from.device.kind = comm::Device::Kind::cuda;
  if (what == "to_device") wrong.to.device.kind = comm::Device::Kind::cuda;
  if (position == 0) std::swap(list[0], list[1]);
  const std::string at = fmt::format("SCALER-115: {} to {}, {}", comm::name_of(from), comm::name_of(to), what);
  if (go_together(from, to) && (what == "nothing" || what == "types")) {
    EXPECT_FALSE(unscaled(list, 0.5F, by)) << at;
    EXPECT_EQ(right.at(2), 1) << at;
    EXPECT_EQ(place.at(2), 1) << at;
    return;
  }
  EXPECT_THROW((void)unscaled(list, 0.5F, by), Error) << at;
  EXPECT_EQ(right, before) << at << ": the gradient beside it";
  EXPECT_EQ(place, place_before) << at;
}

void unscaling_is_refused(Context& context) {
  const std::string what = context.parameters().text("what");
  constexpr std::array all{DType::f16, DType::bf16, DType::f32, DType::f64, DType::i32, DType::u8, DType::i64};
  for (const DType from : all)
    for (const DType to : all)
      if (what == "types" || go_together(from, to))
        for (const std::size_t position : {0U, 1U})
          for (const By by : {By::loops, By::launches}) expect_refused(from, to, what, position, by);
}

// ---- arguments of an optimizer ----

// Two parameters, of three elements and of one.
struct Model {
  explicit Model(DType dtype = DType::f16) : weight(dtype, 3), bias(dtype, 1) {
    for (std::size_t i = 0; i < 3; ++i) weight.set(i, static_cast<double>(i) + 0.5);
    bias.set(0, 2);
  }
  [[nodiscard]] std::vector<scaler::ModelParameter> parameters() {
    return {{.name = "weight", .values = weight.buffer()}, {.name = "bias", .values = bias.buffer()}};
  }
  [[nodiscard]] std::vector<Buffer> gradients() { return {weight.buffer(), bias.buffer()}; }
  Values weight, bias;
};

void optimizer_refuses(Context& context) {
  const std::string what = context.parameters().text("what");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto made = [](DType dtype, const Fp16Options& options = {},
                       comm::Device::Kind kind = comm::Device::Kind::cpu) {
    Model model(dtype);
    auto parameters = model.parameters();
    parameters.back().values.device.kind = kind;
    (void)Fp16Optimizer(parameters, scaler::sgd({}), options);
  };
  const scaler::LossScale constant = scaler::ConstantScale{4};
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    EXPECT_NO_THROW(made(dtype)) << "SCALER-116";
    EXPECT_NO_THROW(made(dtype, {.clip_norm = 0.5, .norm_type = HUGE_VAL})) << "SCALER-116";
    EXPECT_NO_THROW(made(dtype, {.scale = constant, .clip_norm = 0, .norm_type = 0.5})) << "SCALER-116";
    EXPECT_NO_THROW(made(dtype, {.scale = constant, .skips_overflows = false})) << "SCALER-116";
  }
  if (what == "parameters") {
    for (const DType dtype : {DType::f64, DType::i32, DType::u8})
      EXPECT_THROW(made(dtype), InvalidArgument) << "SCALER-116: parameters of " << comm::name_of(dtype);
    EXPECT_THROW(made(DType::f16, {}, comm::Device::Kind::cuda), InvalidArgument) << "SCALER-116: another device";
  }
  if (what == "clipping") {
    for (const double p : {0.0, -1.0, -HUGE_VAL, nan})
      EXPECT_THROW(made(DType::f16, {.norm_type = p}), InvalidArgument) << "SCALER-121: a norm of order " << p;
    for (const double most : {-0.25, -HUGE_VAL, nan})
      EXPECT_THROW(made(DType::f16, {.clip_norm = most}), InvalidArgument) << "SCALER-121: clipping by " << most;
    for (const auto& [most, p] : {std::pair{1.0, 0.0}, {1.0, -1.0}, {1.0, nan}, {-0.25, 2.0}, {nan, 2.0}})
      EXPECT_THROW((void)scaler::clip_over_group(nullptr, {}, most, p), InvalidArgument)
          << "SCALER-121: over a group by " << most << ", order " << p;
  }
  if (what == "scale") {
    EXPECT_THROW(made(DType::f16, {.skips_overflows = false}), InvalidArgument) << "SCALER-122: a scale that moves";
    EXPECT_THROW(made(DType::f16, {.scale = scaler::ConstantScale{0}}), InvalidArgument) << "SCALER-122";
  }
  Model model, wrong;
  Fp16Optimizer optimizer(model.parameters(), scaler::sgd({}), {.scale = constant});
  const auto master = optimizer.state().master_weights;
  if (what == "gradients") {
    const Buffer weight = wrong.weight.buffer(), bias = wrong.bias.buffer();
    for (const std::vector<Buffer>& list :
         {std::vector<Buffer>{}, {weight}, {weight, bias, bias}, {weight, weight}, {bias, bias}})
      EXPECT_THROW((void)optimizer.step(list), InvalidArgument) << "SCALER-120: " << list.size() << " gradients";
    EXPECT_EQ(optimizer.state().master_weights, master) << "SCALER-120: masters after what was rejected";
  }
  EXPECT_TRUE(optimizer.step(wrong.gradients()).stepped) << "SCALER-116";
  EXPECT_NE(optimizer.state().master_weights, master) << "SCALER-116";
}

// The ranks' gradients of one element each: what is all reduced where there are several, and what is left of them.
void clipped_over_the_group(Context& context) {
  RecordingCommunicator group(context.world().duplicate());
  const double most = std::stod(context.parameters().text("max_norm"));
  for (const double p : {1.0, 2.0, HUGE_VAL}) {
    std::vector<float> gradient{static_cast<float>(context.rank() + 3)};
    double expected = 0;
    for (int rank = 0; rank < context.size(); ++rank)
      expected = std::isinf(p) ? rank + 3 : expected + std::pow(rank + 3, p);
    if (p == 2) expected = std::sqrt(expected);
    const double norm = scaler::clip_over_group(&group, {.all = {gradient}, .counted = {gradient}}, most, p);
    EXPECT_NEAR(norm, expected, 1e-6 * expected) << "SCALER-129: order " << p;
    const double by = std::min(1.0, most / (expected + 1e-6));
    EXPECT_NEAR(static_cast<double>(gradient.front()), (context.rank() + 3) * by, 1e-5) << "SCALER-129: order " << p;
  }
  EXPECT_EQ(group.calls.size(), context.size() > 1 ? 3U : 0U) << "SCALER-129: collectives of three calls";
}

// The first parameter has no gradient in the second of three steps.
void parameters_without_gradients(Context& context) {
  const bool lacks = context.parameters().text("lacking") == "one";
  Model model, gradients;
  Fp16Optimizer optimizer(model.parameters(), scaler::sgd({.lr = 0.25, .momentum = 0.5}),
                          {.scale = scaler::ConstantScale{1}, .clip_norm = 1e6, .count_zeros = true});
  for (int step = 0; step < 3; ++step) {
    const Values before = model.weight, bias = model.bias;
    const auto kept = optimizer.state().inner;
    std::vector<Buffer> list = gradients.gradients();
    const bool is_left = lacks && step == 1;
    if (is_left) list.front().data = nullptr;
    const scaler::StepOutcome outcome = optimizer.step(list);
    EXPECT_TRUE(outcome.stepped) << "SCALER-130";
    // The weight's gradient is 0.5, 1.5 and 2.5, the bias's 2.
    EXPECT_NEAR(outcome.norm.value_or(0), is_left ? 2.0 : std::sqrt(8.75 + 4), 1e-5) << "SCALER-130: step " << step;
    EXPECT_EQ(model.weight == before, is_left) << "SCALER-130: step " << step;
    EXPECT_NE(model.bias, bias) << "SCALER-130: step " << step;
    if (is_left) EXPECT_EQ(optimizer.state().inner.front(), kept.front()) << "SCALER-130: what the optimizer keeps";
  }
}

void groups_are_of_sizes(Context& context) {
  const std::string what = context.parameters().text("what");
  EXPECT_EQ(scaler::model_groups(2, 3, 2).model.size(), 2U) << "SCALER-046";
  for (const int size : {0, -1}) {
    if (what == "tensor") {
      EXPECT_THROW((void)scaler::model_groups(size, 2, 2), InvalidArgument) << "SCALER-046: " << size;
    }
    if (what == "pipeline") {
      EXPECT_THROW((void)scaler::model_groups(2, size, 2), InvalidArgument) << "SCALER-046: " << size;
    }
    if (what == "data") {
      EXPECT_THROW((void)scaler::model_groups(2, 2, size), InvalidArgument) << "SCALER-046: " << size;
    }
  }
  if (what != "product") return;
  EXPECT_NO_THROW((void)scaler::model_groups(2, 3, 4, 24)) << "SCALER-046";
  EXPECT_THROW((void)scaler::model_groups(2, 3, 4, 23), InvalidArgument) << "SCALER-046";
  EXPECT_THROW((void)scaler::model_groups(1 << 30, 1 << 30, 1 << 30), InvalidArgument) << "SCALER-046";
  const std::vector<bool> found{false, true};
  EXPECT_EQ(scaler::spread({{0, 1}}, found), (std::vector{true, true})) << "SCALER-046";
  for (const int rank : {-1, 2})
    EXPECT_THROW((void)scaler::spread({{0, rank}}, found), OutOfRange) << "SCALER-046: rank " << rank;
}

// ---- states ----

scaler::LossScale scale_of(const std::string& kind) {
  if (kind == "constant") return scaler::ConstantScale{16};
  if (kind == "torch") return scaler::TorchScale{.rule = {.init_scale = 16, .growth_interval = 9}};
  if (kind == "deepspeed") return scaler::DeepSpeedScale{.rule = {.init_scale = 16, .scale_window = 9}};
  return scaler::HysteresisScale{.rule = {.initial_scale = 16, .growth_interval = 9}};
}

template <class Change>
scaler::LossScale changed(scaler::LossScale scale, const Change& change) {
  std::visit(change, scale);
  return scale;
}

// Scales that a state of its kind cannot have.
std::vector<scaler::LossScale> wrong_scales(const scaler::LossScale& right) {
  std::vector<scaler::LossScale> list;
  for (const float scale : {-4.0F, HUGE_VALF, std::nanf("")})
    list.push_back(changed(right, [&](auto& one) { one.scale = scale; }));
  if (!std::holds_alternative<scaler::TorchScale>(right))
    list.push_back(changed(right, [](auto& one) { one.scale = 0; }));
  const auto add = [&](const auto& one) {
    using Scale = std::decay_t<decltype(one)>;
    Scale wrong = one;
    if constexpr (requires { wrong.growth_tracker; }) {
      wrong.growth_tracker = -1;
      list.emplace_back(wrong);
    }
    if constexpr (requires { wrong.cur_iter; }) {
      wrong.cur_iter = -1;
      list.emplace_back(wrong);
      wrong = one;
      wrong.cur_hysteresis = 0;
      list.emplace_back(wrong);
    }
    if constexpr (requires { wrong.rule; }) {
      wrong = one;
      if constexpr (requires { wrong.rule.growth_interval; })
        wrong.rule.growth_interval = 0;
      else
        wrong.rule.scale_window = 0;
      list.emplace_back(wrong);
    }
  };
  std::visit(add, right);
  return list;
}

// An optimizer that has loaded the state of another, which has made a few steps.
struct Loaded {
  explicit Loaded(const scaler::LossScale& scale)
      : saved(model.parameters(), scaler::sgd({.lr = 0.25, .momentum = 0.5}), {.scale = scale}),
        optimizer(other.parameters(), scaler::sgd({.lr = 0.25, .momentum = 0.5}), {.scale = scale}) {
    Model gradients;
    for (int step = 0; step < 4; ++step) (void)saved.step(gradients.gradients());
    state = saved.state();
    optimizer.load(state);
  }
  void expect_unchanged(const std::string& after) {
    EXPECT_EQ(optimizer.loss_scale(), state.scale) << after;
    EXPECT_EQ(optimizer.state().master_weights, state.master_weights) << after;
    EXPECT_EQ(optimizer.state().inner, state.inner) << after;
    EXPECT_EQ(other.weight, model.weight) << after;
  }
  Model model, other;
  Fp16Optimizer saved, optimizer;
  scaler::Fp16State state;
};

void states_are_loaded(Context& context) {
  const scaler::LossScale scale = scale_of(context.parameters().text("scale"));
  Loaded loaded(scale);
  loaded.expect_unchanged("SCALER-117: a state of its kind");
  if (!std::holds_alternative<scaler::TorchScale>(scale)) return;
  scaler::Fp16State fallen = loaded.state;
  std::get<scaler::TorchScale>(fallen.scale).scale = 0;
  EXPECT_NO_THROW(loaded.optimizer.load(fallen)) << "SCALER-117: PyTorch's scale may be 0";
}

void states_are_refused(Context& context) {
  Loaded loaded(scale_of(context.parameters().text("scale")));
  const auto expect_refused = [&](const std::string& what, const auto& change) {
    scaler::Fp16State changed = loaded.state;
    if (!changed.master_weights.empty()) changed.master_weights[0][0] += 1;
    change(changed);
    EXPECT_THROW(loaded.optimizer.load(changed), InvalidArgument) << "SCALER-123: " << what;
  };
  for (const scaler::LossScale& wrong : wrong_scales(loaded.state.scale))
    expect_refused(fmt::format("a scale of {}", value_of(wrong)), [&](auto& changed) { changed.scale = wrong; });
  for (const std::size_t parameters : {0U, 1U, 3U})
    expect_refused(fmt::format("{} parameters", parameters),
                   [&](auto& changed) { changed.master_weights.resize(parameters); });
  for (const std::size_t parameter : {0U, 1U})
    for (const int more : {-1, 1})
      expect_refused("another element count", [&](auto& changed) {
        auto& values = changed.master_weights[parameter];
        values.resize(static_cast<std::size_t>(std::ssize(values) + more));
      });
  loaded.expect_unchanged("SCALER-123: states that are rejected");
}

void gradients_are_zeroed(Context& context) {
  const bool is_given = context.parameters().text("given") == "all";
  Model model, gradients;
  Fp16Optimizer optimizer(model.parameters(), scaler::sgd({}), {.scale = scaler::ConstantScale{1}});
  (void)optimizer.step(gradients.gradients());
  EXPECT_THAT(optimizer.master_gradient(0), testing::ElementsAre(0.5F, 1.5F, 2.5F)) << "SCALER-118";
  std::vector<Buffer> list = gradients.gradients();
  if (!is_given) list.front().data = nullptr;
  optimizer.zero_grad(list);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_THAT(optimizer.master_gradient(i), testing::Each(0.0F)) << "SCALER-118: the f32 gradient " << i;
  EXPECT_EQ(gradients.bias.at(0), 0) << "SCALER-118";
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(gradients.weight.at(i), is_given ? 0 : static_cast<double>(i) + 0.5) << "SCALER-118: element " << i;
}

}  // namespace

void add_optimizer_argument_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes,
                       void (*body)(Context&)) {
    axes.push_back(suite::worlds({1, 3}));
    suite.add({.id = std::string("scaler.optimizer.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .body = body});
  };
  add("unscaled_is_rounded_once", "SCALER-114@8187", {{"elements", {"few", "many"}}, {"by", {"loops", "launches"}}},
      unscaled_is_rounded_once);
  add("unscaling_is_refused", "SCALER-115@b5c7",
      {{"what", {"nothing", "types", "counts", "counts_above", "from_device", "to_device"}}}, unscaling_is_refused);
  add("parameters_are_refused", "SCALER-116@afcf", {{"what", {"nothing", "parameters"}}}, optimizer_refuses);
  add("gradients_are_refused", "SCALER-120@2c47", {{"what", {"nothing", "gradients"}}}, optimizer_refuses);
  add("clipping_is_refused", "SCALER-121@498b", {{"what", {"nothing", "clipping"}}}, optimizer_refuses);
  add("scale_is_refused", "SCALER-122@56e1", {{"what", {"nothing", "scale"}}}, optimizer_refuses);
  add("groups_are_of_sizes", "SCALER-046@aa93", {{"what", {"nothing", "tensor", "pipeline", "data", "product"}}},
      groups_are_of_sizes);
  add("clipped_over_the_group", "SCALER-129@e21f", {{"max_norm", {"0", "0.5", "1e6"}}}, clipped_over_the_group);
  add("parameters_without_gradients", "SCALER-130@148a", {{"lacking", {"nothing", "one"}}},
      parameters_without_gradients);
  const suite::Axis scales{"scale", {"constant", "torch", "hysteresis", "deepspeed"}};
  add("states_are_loaded", "SCALER-117@29b0", {scales}, states_are_loaded);
  add("states_are_refused", "SCALER-123@7c41", {scales}, states_are_refused);
  add("gradients_are_zeroed", "SCALER-118@5d7f", {{"given", {"all", "one"}}}, gradients_are_zeroed);
}

}  // namespace plumbline::conformance
