// What findings about plans, and differences of ranks, say in numbers: each is at its place in the words. Plans
// here are written by hand, with another number for everything, so that two that change places are seen.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/support/refusal.hpp"
#include "conformance/support/words.hpp"
#include "reference/bucketing/check_plan.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using bucketing::Bucket;
using bucketing::Closing;
using bucketing::Gradient;
using bucketing::Member;
using bucketing::PlanFault;
using bucketing::PlanProblem;
using comm::DType;
using suite::Context;

namespace {

// ---- findings about plans ----

using Numbers = std::vector<std::int64_t>;

struct Expected {
  PlanFault fault;
  int bucket, gradient;  // -1: none
  Numbers numbers;       // of the words, in order
};

// A plan with faults, and all that is to be found.
struct Faulty {
  std::vector<Gradient> gradients;
  bucketing::Plan plan;
  bucketing::PlanRules rules;
  std::vector<Expected> expected;

  // Gradients of f32 with that many elements.
  explicit Faulty(const Numbers& elements) {
    for (const std::int64_t one : elements) gradients.push_back({.elements = one});
  }
  Bucket& bucket(std::int64_t elements, const std::vector<Member>& members) {
    plan.buckets.push_back({.elements = elements,
                            .first_member = static_cast<int>(plan.members.size()),
                            .members = static_cast<int>(members.size())});
    plan.members.insert(plan.members.end(), members.begin(), members.end());
    return plan.buckets.back();
  }
  void expect(PlanFault fault, int of_bucket, int of_gradient, Numbers numbers) {
    expected.push_back({fault, of_bucket, of_gradient, std::move(numbers)});
  }
};

// Three gradients, packed in two buckets.
Faulty packed() {
  Faulty one({30, 7, 5});
  one.bucket(30, {{0, 0}});
  one.bucket(12, {{1, 0}, {2, 7}});
  return one;
}

std::vector<Faulty> out_of_range() {
  std::vector<Faulty> list(7, packed());
  list[0].plan.buckets[1].elements = -9;
  list[0].expect(PlanFault::range, 1, -1, {1, -9, 1});
  list[1].plan.buckets[1].components_per_element = 3;
  list[1].expect(PlanFault::range, 1, -1, {1, 12, 3});
  list[2].plan.buckets[1].first_member = -4;
  list[2].expect(PlanFault::range, 1, -1, {1, -4, -2, 3});
  list[3].plan.buckets[1].members = 6;
  list[3].expect(PlanFault::range, 1, -1, {1, 1, 7, 3});
  list[4].plan.buckets[1].members = -6;
  list[4].expect(PlanFault::range, 1, -1, {1, 1, -5, 3});
  for (std::size_t i : {2U, 3U, 4U})
    for (const int missing : {1, 2}) list[i].expect(PlanFault::missing, -1, missing, {missing});
  for (const auto& [i, stranger] : {std::pair(5U, 8), std::pair(6U, -8)}) {
    list[i].plan.members[1].gradient = stranger;
    list[i].expect(PlanFault::range, 1, stranger, {1, stranger, 3});
    list[i].expect(PlanFault::missing, -1, 1, {1});
  }
  return list;
}

std::vector<Faulty> covered_wrongly() {
  std::vector<Faulty> list(3, packed());
  list[0].plan.members[2] = {1, 7};
  list[0].plan.buckets[1].elements = 14;
  list[0].expect(PlanFault::doubled, -1, 1, {1, 2});
  list[0].expect(PlanFault::missing, -1, 2, {2});
  list[1].rules.frozen = {2};
  list[1].expect(PlanFault::frozen, -1, 2, {2});
  list[2].bucket(0, {});
  list[2].expect(PlanFault::empty, 2, -1, {2});
  return list;
}

// In the second of two buckets.
Faulty second_bucket(std::int64_t size, const std::vector<std::pair<std::int64_t, std::int64_t>>& members) {
  Faulty one({30});
  one.bucket(30, {{0, 0}});
  std::vector<Member> placed;
  for (const auto& [elements, begin] : members) {
    placed.push_back({static_cast<int>(one.gradients.size()), begin});
    one.gradients.push_back({.elements = elements});
  }
  one.bucket(size, placed);
  return one;
}

std::vector<Faulty> misplaced() {
  std::vector<Faulty> list;
  const auto add = [&](std::int64_t size, const std::vector<std::pair<std::int64_t, std::int64_t>>& members,
                       const std::vector<Expected>& expected) -> Faulty& {
    list.push_back(second_bucket(size, members));
    list.back().expected = expected;
    return list.back();
  };
  add(10, {{10, 0}, {2, 3}, {1, 6}},  // both lie in the first one
      {{PlanFault::overlap, 1, 2, {2, 3, 1, 1, 10}}, {PlanFault::overlap, 1, 3, {3, 6, 1, 1, 10}}});
  add(12, {{5, 0}, {8, 4}}, {{PlanFault::overlap, 1, 2, {2, 4, 1, 1, 5}}});
  add(12, {{5, 0}, {9, 5}, {0, 12}}, {{PlanFault::outside, 1, 2, {2, 9, 5, 1, 12}}});
  add(12, {{5, 0}, {9, 13}}, {{PlanFault::outside, 1, 2, {2, 9, 13, 1, 12}}});
  add(12, {{5, -3}, {7, 5}}, {{PlanFault::outside, 1, 1, {1, 5, -3, 1, 12}}});
  add(12, {{8, -3}, {7, 5}},
      {{PlanFault::alignment, 1, 1, {1, -3, 1, 5}}, {PlanFault::outside, 1, 1, {1, 8, -3, 1, 12}}})
      .rules.member_alignment = 5;
  add(14, {{5, 0}, {7, 7}}, {{PlanFault::gap, 1, 2, {5, 7, 1}}});
  add(17, {{5, 0}, {7, 5}}, {{PlanFault::gap, 1, -1, {12, 17, 1}}});
  add(12, {{12, 0}, {0, 5}}, {});  // nothing lies in another one
  add(16, {{5, 0}, {7, 6}}, {{PlanFault::alignment, 1, 2, {2, 6, 1, 4}}}).rules.member_alignment = 4;
  list.back().plan.buckets[0].elements = 32;
  add(17, {{5, 0}, {12, 5}}, {{PlanFault::alignment, 1, -1, {1, 17, 6}}}).rules.bucket_alignment = 6;
  const std::int64_t large = std::int64_t{1} << 61;
  add(large, {{5, 0}}, {{PlanFault::overflow, 1, -1, {1, large, 8, 64}}, {PlanFault::gap, 1, -1, {5, large, 1}}});
  list.back().plan.buckets[1].dtype = list.back().gradients[1].dtype = DType::f64;
  return list;
}

std::vector<Faulty> mixed() {
  std::vector<Faulty> list;
  const auto change = [&](Numbers numbers, const std::function<void(Gradient&)>& made) {
    list.push_back(packed());
    made(list.back().gradients[2]);
    list.back().plan.buckets[0].group = list.back().gradients[0].group = 6;
    for (const int i : {1, 2}) list.back().gradients[static_cast<std::size_t>(i)].group += 4;
    list.back().plan.buckets[1].group = 4;
    list.back().expect(PlanFault::mixed, 1, 2, std::move(numbers));
  };
  for (const DType dtype : {DType::f16, DType::f64}) change({1, 4, 2, 4}, [=](Gradient& one) { one.dtype = dtype; });
  change({1, 4, 2, 2, 4}, [](Gradient& one) { one.components_per_element = 2; });
  change({1, 4, 2, 2, 4}, [](Gradient& one) { one.dtype = DType::bf16, one.components_per_element = 2; });
  change({1, 4, 2, 3, 4}, [](Gradient& one) { one.device = {comm::Device::Kind::cuda, 3}; });
  change({1, 4, 2, 9}, [](Gradient& one) { one.group = 5; });
  return list;
}

std::vector<Faulty> not_alone() {
  std::vector<Faulty> list(4, packed());
  list[0].gradients[2].sparse = true;
  list[1].gradients[0].sparse = true;
  list[1].expect(PlanFault::alone, 0, 0, {0, 0});
  list[2].plan.buckets[0].sparse = true;
  list[2].expect(PlanFault::alone, 0, 0, {0, 0});
  list[3].rules.alone = {0, 2};
  for (const std::size_t i : {0U, 3U}) list[i].expect(PlanFault::alone, 1, 2, {1, 2});
  return list;
}

// Two buckets of f32, after one of f64.
Faulty capped(const std::vector<Numbers>& buckets, bucketing::PlanRules rules, std::vector<Expected> expected) {
  Faulty one({1});
  one.gradients[0].dtype = DType::f64;
  one.bucket(1, {{0, 0}}).dtype = DType::f64;
  for (const Numbers& elements : buckets) {
    std::vector<Member> members;
    std::int64_t end = 0;
    for (const std::int64_t each : elements) {
      members.push_back({static_cast<int>(one.gradients.size()), end});
      one.gradients.push_back({.elements = each});
      end += each;
    }
    one.bucket(end, members);
  }
  one.rules = std::move(rules);
  one.expected = std::move(expected);
  return one;
}

// Where nothing is aligned, a gap is none of the bytes that a limit counts.
Faulty capped_with_gap() {
  Faulty one = capped({{3, 1}, {2}}, {.limits = {20}}, {});
  one.plan.members[2].begin = 10;
  one.plan.buckets[1].elements = 11;
  one.expect(PlanFault::gap, 1, 2, {3, 10, 1});
  one.expect(PlanFault::cap, 1, -1, {1, 16, 20});
  return one;
}

// Nothing is counted of a bucket without members, which stands for no limit.
Faulty capped_with_empty() {
  Faulty one = capped({{5}, {2}}, {.limits = {20}}, {});
  one.plan.buckets.insert(one.plan.buckets.begin() + 1, Bucket{.elements = 0, .first_member = 1, .members = 0});
  one.rules.order = std::vector{0, 1, 2};
  one.expect(PlanFault::empty, 1, -1, {1});
  return one;
}

std::vector<Faulty> against_caps() {
  constexpr Closing below = Closing::before_exceeding;
  return {capped_with_gap(),
          capped_with_empty(),
          capped({{5}, {2}, {1}}, {.limits = {0}}, {}),
          capped({{5, 2}}, {.limits = {0}}, {{PlanFault::cap, 1, -1, {1, 0, 20}}}),
          capped({{5, 6}, {2}}, {.limits = {20}}, {{PlanFault::cap, 1, -1, {1, 20, 20}}}),
          capped({{7, 6}, {2}}, {.limits = {20}}, {{PlanFault::cap, 1, -1, {1, 20, 28}}}),
          capped({{3}, {9}, {2}}, {.limits = {20}}, {{PlanFault::cap, 1, -1, {1, 12, 20}}}),
          capped({{7}, {9, 4}, {2}}, {.limits = {20, 32}}, {{PlanFault::cap, 2, -1, {2, 32, 36}}}),
          capped({{7}, {4}, {2}}, {.limits = {20, 32}}, {{PlanFault::cap, 2, -1, {2, 16, 32}}}),
          capped({{5, 6}, {4}}, {.limits = {40}, .closing = below}, {{PlanFault::cap, 1, -1, {1, 44, 40}}}),
          capped({{3}, {7}}, {.limits = {40}, .closing = below}, {{PlanFault::cap, 1, -1, {1, 12, 28, 40}}}),
          capped({{3}, {8}}, {.limits = {40}, .closing = below}, {}),
          capped({{3}, {7, 4}}, {.limits = {40, 50}, .closing = below}, {{PlanFault::cap, 1, -1, {1, 12, 28, 40}}})};
}

std::vector<Faulty> out_of_order() {
  Faulty inside({1, 2, 3, 4});  // gradient 3, then 1
  inside.bucket(1, {{0, 0}});
  inside.bucket(9, {{3, 0}, {1, 4}, {2, 6}});
  inside.rules.order = std::vector{0, 1, 2, 3};
  inside.expect(PlanFault::order, 1, 1, {1, 1, 3});
  Faulty between({1, 2, 3, 4});
  between.bucket(6, {{1, 0}, {3, 2}});
  between.bucket(3, {{2, 0}});
  between.bucket(1, {{0, 0}});
  between.rules.order = std::vector{1, 2, 0, 3};
  between.expect(PlanFault::order, 1, 2, {2, 1, 3});
  between.expect(PlanFault::order, 2, 0, {0, 2, 3});
  Faulty waiting({1, 2, 3, 4, 5});
  waiting.bucket(3, {{2, 0}});
  waiting.bucket(6, {{3, 0}, {1, 4}});
  waiting.bucket(1, {{0, 0}});
  waiting.bucket(5, {{4, 0}});
  waiting.rules.ready = std::vector{2, 0, 4, 1, 3};
  waiting.expect(PlanFault::waits, 2, -1, {2, 2, 1, 5});
  waiting.expect(PlanFault::waits, 3, -1, {3, 3, 1, 5});
  return {inside, between, waiting};
}

const std::map<std::string, std::vector<Faulty> (*)()>& faulty_plans() {
  static const std::map<std::string, std::vector<Faulty> (*)()> plans{
      {"range", out_of_range}, {"cover", covered_wrongly}, {"places", misplaced},  {"mixed", mixed},
      {"alone", not_alone},    {"caps", against_caps},     {"order", out_of_order}};
  return plans;
}

bool is_that(const PlanProblem& found, const Expected& expected) {
  return found.fault == expected.fault && found.bucket == expected.bucket && found.gradient == expected.gradient &&
         numbers_in(found.message) == expected.numbers;
}

void findings_in_numbers(Context& context) {
  const std::vector<Faulty> plans = faulty_plans().at(context.parameters().text("faults"))();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto found = bucketing::check_plan(plans[i].plan, plans[i].gradients, plans[i].rules);
    std::string words;
    for (const PlanProblem& one : found) words += fmt::format("\n{}: {}", name_of(one.fault), one.message);
    EXPECT_EQ(found.size(), plans[i].expected.size()) << "BUCKET-224: findings in plan " << i << words;
    for (const Expected& expected : plans[i].expected)
      EXPECT_TRUE(std::ranges::any_of(found, [&](const PlanProblem& one) { return is_that(one, expected); }))
          << "BUCKET-224: plan " << i << ", " << name_of(expected.fault) << " of bucket " << expected.bucket
          << ", gradient " << expected.gradient << words;
  }
}

// ---- what ranks have differently ----

struct Different {
  std::vector<Gradient> gradients;
  bucketing::Plan plan;
};

Different usual() {
  return {
      .gradients = {{.elements = 11}, {.elements = 6, .components_per_element = 2}, {.elements = 8}},
      .plan = {
          .buckets = {{.elements = 19, .limit_bytes = 72, .members = 2},
                      {.elements = 7, .limit_bytes = 48, .first_member = 2, .members = 1, .components_per_element = 2}},
          .members = {{2, 0}, {0, 8}, {1, 1}}}};
}

// What rank 1 has otherwise, and the numbers of it and of all others in the words: of a gradient its elements, kind,
// group, number, bucket and place; of a bucket its elements, group, limit, and its members with their places.
struct Difference {
  std::function<void(Different&)> change;
  Numbers usual, odd;
};

std::vector<Difference> differences_of_ranks() {
  return {{[](Different& of) { of.gradients[0].elements = 10; }, {0, 11, 0, 0, 0, 8}, {0, 10, 0, 0, 0, 8}},
          {[](Different& of) { of.plan.buckets[1].elements = 9; }, {1, 7, 2, 0, 48, 1, 1}, {1, 9, 2, 0, 48, 1, 1}},
          {[](Different& of) { of.plan.members[2].begin = 0; }, {1, 6, 2, 0, 1, 1, 1}, {1, 6, 2, 0, 1, 1, 0}},
          {[](Different& of) { of.plan.buckets[0].limit_bytes = 73; },
           {0, 19, 0, 72, 2, 0, 0, 8},
           {0, 19, 0, 73, 2, 0, 0, 8}}};
}

void differences_in_numbers(Context& context) {
  for (const Difference& difference : differences_of_ranks()) {
    Different of = usual();
    if (context.rank() == 1) difference.change(of);
    const std::string said = refusal<comm::MismatchError>([&] {
      bucketing::Reducer reducer({&context.world()}, of.gradients, of.plan, {.average = false});
      reducer.begin();
    });
    // The subject's number, then the ranks and what they have, those of the lowest ranks first.
    Numbers expected = difference.usual;
    expected.insert(expected.begin() + 1, {0, 2});
    expected.push_back(1);
    expected.insert(expected.end(), difference.odd.begin() + 1, difference.odd.end());
    EXPECT_EQ(missing_numbers(said, expected), "") << "BUCKET-224";
    EXPECT_THAT(ranks_named(said), testing::ElementsAre(0, 2, 1)) << "BUCKET-224: ranks in the words of a difference";
  }
}

// What a rank has alone is no difference; what is one has its name.
void differences_in_groups(Context& context) {
  const bool differ = context.parameters().text("differs") == "shared";
  const auto own = context.world().create_group(std::vector{context.rank()});
  const std::vector<Gradient> gradients{{.elements = 5 + context.rank(), .group = 1},
                                        {.elements = differ && context.rank() == 1 ? 8 : 7},
                                        {.elements = 4 + context.rank(), .group = 1}};
  const std::string said = refusal<comm::MismatchError>([&] {
    bucketing::Reducer reducer({&context.world(), own.get()}, gradients, bucketing::plan_unfused(gradients),
                               {.names = {"expert", "shared", "router"}});
    reducer.begin();
  });
  if (!differ) {
    EXPECT_EQ(said, kNotRefused) << "BUCKET-066: each rank has experts of its own";
    return;
  }
  EXPECT_EQ(missing_words(said, {"shared", "7", "8"}), "") << "BUCKET-066: " << said;
  for (const char* other : {"expert", "router"}) EXPECT_FALSE(has_word(said, other)) << "BUCKET-066: " << said;
}

// ---- what is waited for in vain ----

// Over which the n-th reduction never ends.
class Stuck final : public comm::CommunicatorDecorator {
 public:
  Stuck(std::unique_ptr<comm::Communicator> inner, int number, bool peer_fails)
      : CommunicatorDecorator(std::move(inner)), left_(number), peer_fails_(peer_fails) {}

 private:
  class Never final : public comm::Work::State {
   public:
    Never(comm::Work inner, bool peer_fails) : inner_(std::move(inner)), peer_fails_(peer_fails) {}
    bool test() override { return false; }
    void wait(comm::Timeout timeout) override {
      inner_.wait(timeout);  // its memory is free again
      if (peer_fails_) throw comm::PeerFailed("a peer has gone");
      throw comm::TimeoutError("nobody came");
    }
    [[nodiscard]] bool outlasts_wait() const override { return true; }

   private:
    comm::Work inner_;
    bool peer_fails_;
  };

  comm::Work do_start(std::span<const comm::Call> calls) override {
    comm::Work work = CommunicatorDecorator::do_start(calls);
    return left_-- == 0 ? comm::Work(std::make_unique<Never>(std::move(work), peer_fails_)) : std::move(work);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }

  int left_;
  bool peer_fails_;
};

void vain_in_numbers(Context& context) {
  const bool peer_fails = context.parameters().text("because") == "peer";
  for (const int bucket : {0, 2}) {
    Stuck world(context.world().duplicate(), bucket, peer_fails);
    const std::vector<Gradient> gradients(4, {.elements = 3});
    const auto run = [&] {
      bucketing::Reducer reducer({&world}, gradients, bucketing::plan_unfused(gradients),
                                 {.names = {"left", "middle", "right", "last"}});
      reducer.begin();
      for (int gradient = 0; gradient < 4; ++gradient) reducer.ready(gradient);
      (void)reducer.finish();
    };
    const std::string said = peer_fails ? refusal<comm::PeerFailed>(run) : refusal<comm::TimeoutError>(run);
    EXPECT_EQ(missing_numbers(said, {context.rank(), bucket, 4}), "") << "BUCKET-224";
    EXPECT_EQ(missing_words(said, {bucket == 0 ? "left" : "right"}), "") << "BUCKET-224: " << said;
    for (const char* other : {"middle", "last"}) EXPECT_FALSE(has_word(said, other)) << "BUCKET-224: " << said;
    context.world().barrier();
  }
}

}  // namespace

void add_finding_checks(suite::Suite& suite) {
  suite::Axis faults{"faults", {}};
  for (const auto& [name, plans] : faulty_plans()) faults.values.push_back(name);
  suite.add({.id = "bucketing.planned.findings_in_numbers",
             .verifies = {"BUCKET-224@55b2"},
             .axes = {faults, suite::worlds({1, 3})},
             .body = findings_in_numbers});
  suite.add({.id = "bucketing.planned.differences_in_numbers",
             .verifies = {"BUCKET-224@55b2"},
             .axes = {suite::worlds({3})},
             .body = differences_in_numbers});
  suite.add({.id = "bucketing.reducer.vain_in_numbers",
             .verifies = {"BUCKET-224@55b2"},
             .axes = {{"because", {"time", "peer"}}, suite::worlds({1, 3})},
             .body = vain_in_numbers});
  suite.add({.id = "bucketing.planned.differences_in_groups",
             .verifies = {"BUCKET-066@f421"},
             .axes = {{"differs", {"nothing", "shared"}}, suite::worlds({2, 3})},
             .body = differences_in_groups});
}

}  // namespace plumbline::conformance
