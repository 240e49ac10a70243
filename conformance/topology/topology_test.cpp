// The checks of topologies: the reference passes them.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/components.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "conformance/support/made_up_adapters.hpp"
#include "conformance/topology/shape.hpp"
#include "harness/mutants/rewritten_adapter.hpp"
#include "harness/subject/adapter/client.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_topology);
  return suite;
}

namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const suite::Suite& topology() { return suite_under_test(); }

// ---- checks ----

bool is_of_adapter(const suite::Case& one) { return one.check->door == suite::Door::adapter; }

std::vector<std::string> checks() {
  std::vector<std::string> ids;
  for (const suite::Check& check : topology().checks()) ids.push_back(check.id);
  return ids;
}

class EveryCheck : public testing::TestWithParam<std::string> {};

TEST_P(EveryCheck, PassesOnTheReference) {
  for (const suite::Case& one : topology().cases()) {
    if (one.check->id != GetParam() || is_largest(one)) continue;
    EXPECT_THAT(is_of_adapter(one) ? run_in_process(one, reference_adapter()) : run_in_process(one), IsEmpty())
        << one.id();
  }
}

INSTANTIATE_TEST_SUITE_P(Checks, EveryCheck, testing::ValuesIn(checks()), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

// ---- mutants ----

// The reference with a mutant of it.
class MutantAdapter {
 public:
  explicit MutantAdapter(const mutants::Mutant& mutant) : edited_(reference_adapter()) {
    mutants::choose_woven(&mutant);
    if (const auto* rewrite = std::get_if<mutants::RewriteAnswer>(&mutant.change))
      rewritten_.emplace(reference_adapter(), *rewrite);
  }
  ~MutantAdapter() { mutants::choose_woven(nullptr); }
  MutantAdapter(const MutantAdapter&) = delete;
  MutantAdapter& operator=(const MutantAdapter&) = delete;
  [[nodiscard]] suite::Adapter& get() {
    if (rewritten_) return *rewritten_;
    return edited_;
  }

 private:
  mutants::EditedAdapter edited_;
  std::optional<mutants::RewrittenAdapter> rewritten_;
};

// Two checks of one convention that the same mutants fail would be one check said twice.
TEST(Checks, AreToldApartByTheMutantsThatFailThem) {
  std::map<std::string, std::set<std::string>> killers;
  std::map<std::string, std::string> conventions;
  for (const mutants::Mutant& mutant : topology().mutants()) {
    if (const std::string why = mutants::why_not_woven(mutant); !why.empty()) GTEST_SKIP() << why;
    MutantAdapter adapter(mutant);
    const std::vector<std::string>& shown_by = case_named(topology(), mutant.shows).check->operations;
    for (const suite::Case& one : topology().cases()) {
      if (!is_of_adapter(one)) continue;
      const auto& asked = one.check->operations;
      if (std::ranges::find_first_of(asked, shown_by) == asked.end())
        continue;  // enough to tell checks apart, and quick
      const std::string shape = one.parameters.has("shape") ? one.parameters.text("shape") : "";
      if (shape == "random" || shape == "2x3x4x5") continue;  // long, and not needed for this
      if (one.parameters.has("size")) continue;               // the same questions, of other sizes
      conventions[one.check->id] = one.check->convention;
      if (killers[one.check->id].contains(mutant.name)) continue;
      const auto failures = run_in_process(one, adapter.get());
      if (!std::ranges::all_of(failures, &Failure::uncaught)) killers[one.check->id].insert(mutant.name);
    }
  }
  std::map<std::pair<std::string, std::set<std::string>>, std::string> rows;
  for (const auto& [check, row] : killers) {
    EXPECT_THAT(row, testing::Not(IsEmpty())) << check;
    const auto [other, is_new] = rows.emplace(std::pair(conventions[check], row), check);
    EXPECT_TRUE(is_new) << check << " and " << other->second << " are failed by the same mutants";
  }
}

// ---- answers of any form ----

// Every number in it.
void add_to_all(nlohmann::json& value, int number) {
  if (value.is_number_integer()) value = value.get<int>() + number;
  if (value.is_structured())
    for (auto& inner : value) add_to_all(inner, number);
}

// The failures of each check on such answers. Whatever an adapter answers, no check falls over it.
std::map<std::string, int> failures_on(const std::function<nlohmann::json(nlohmann::json right)>& change) {
  OtherAnswers adapter(change);
  std::map<std::string, int> found;
  for (const suite::Case& one : topology().cases()) {
    if (is_large(one) || !is_of_adapter(one)) continue;
    const auto failures = run_in_process(one, adapter);
    found[one.check->id] += static_cast<int>(failures.size());
    EXPECT_THAT(failures, testing::Each(testing::Field(&Failure::uncaught, false))) << one.id();
  }
  return found;
}

void expect_found(const std::function<nlohmann::json(nlohmann::json right)>& change) {
  for (const auto& [check, failures] : failures_on(change)) {
    const bool asks_for_refusals = check.starts_with("topology.refusals.");
    EXPECT_GE(failures, asks_for_refusals ? 0 : 1) << check;
  }
}

TEST(Answers, OfNothingAreFound) {
  expect_found([](const nlohmann::json&) { return nlohmann::json::object(); });
}
TEST(Answers, OfNullAreFound) {
  expect_found([](const nlohmann::json&) { return nlohmann::json(); });
}
TEST(Answers, OfTextsAreFound) {
  expect_found([](nlohmann::json right) {
    for (auto& field : right) field = "no";
    return right;
  });
}
TEST(Answers, OfNoSuchRanksAreFound) {
  for (const int number : {1000, -1000}) {
    const auto found = failures_on([number](nlohmann::json right) {
      add_to_all(right, number);
      return right;
    });
    for (const char* check : {"topology.map.bijection", "topology.groups.partition", "topology.grid.pairs",
                              "topology.grid.handles", "topology.grid.overrides", "topology.meshes.slices"})
      EXPECT_GT(found.at(check), 0) << check;
  }
}

// ---- what is expected ----

TEST(Shape, HasItsPositionsCounted) {
  const Shape shape = shape_of("2x3");
  EXPECT_EQ(text_of(shape), "pipe=2 data=3");
  EXPECT_EQ(positions_in(shape, Fastest::last),
            (std::vector<Position>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(positions_in(shape, Fastest::first),
            (std::vector<Position>{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0, 2}, {1, 2}}));
}

TEST(Shape, HasItsListsByTheOtherPositions) {
  Shape shape = shape_of("2x3");
  const auto positions = positions_in(shape, Fastest::last);
  EXPECT_EQ(lists_along(shape, positions, {0}), (std::vector<Ranks>{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(lists_along(shape, positions, {1}), (std::vector<Ranks>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(lists_along(shape, positions, {1, 0}), (std::vector<Ranks>{{0, 1, 2, 3, 4, 5}}));
  shape.offset = 10;
  EXPECT_EQ(ranks_where(shape, positions, [](const Position& at) { return at[1] == 2; }), (Ranks{12, 15}));
}

TEST(Shape, IsDrawnWithinLimitsAndMadeSmallerToNothing) {
  const ShapeLimits limits{.axes = 4, .ranks = 30, .offset = 9, .always = {"pipe", "data"}};
  Random random(1);
  for (int i = 0; i < 300; ++i) {
    Shape shape = draw_shape(random, limits);
    EXPECT_LE(ranks_in(shape), 30);
    EXPECT_THAT(shape.axes.size(), testing::AllOf(testing::Ge(2u), testing::Le(4u)));
    EXPECT_THAT(shape.axes, testing::IsSupersetOf({"pipe", "data"}));
    EXPECT_EQ(std::set(shape.axes.begin(), shape.axes.end()).size(), shape.axes.size());
    for (auto next = smaller(shape, limits); !next.empty(); next = smaller(shape, limits)) shape = next.front();
    EXPECT_THAT(text_of(shape), testing::AnyOf("pipe=1 data=1", "data=1 pipe=1"));
  }
}

TEST(Shape, OfTooManySizesIsRefused) { EXPECT_THROW((void)shape_of("2x2x2x2x2"), InvalidArgument); }

// Coordinates with the first axis fastest.
nlohmann::json column_major(const std::string& op, const nlohmann::json& args, nlohmann::json reply) {
  if (op != "topology.process_topology" || !reply.contains("result")) return reply;
  for (int rank = 0; nlohmann::json& coordinate : reply["result"]["coords"]) {
    int left = rank++;
    for (std::size_t axis = 0; axis < coordinate.size(); ++axis) {
      const int size = args.at("dims").at(axis);
      coordinate[axis] = left % size;
      left /= size;
    }
  }
  return reply;
}

// It is on the smallest shape on which a fault shows.
TEST(Counterexample, IsSmallAndSaysItsSeed) {
  mutants::RewrittenAdapter adapter(reference_adapter(), column_major);
  const auto failures = run_in_process(case_named(topology(), "topology.map.row_major[shape=random]"), adapter);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_THAT(failures.front().text,
              testing::ContainsRegex("[a-z]+=2 [a-z]+=2: coords\\[1\\]\\[0\\]: expected 0, got 1"));
  EXPECT_THAT(failures.front().text, HasSubstr("seed 1"));
}

}  // namespace
}  // namespace plumbline::conformance
