// Sums of gradients of which only some rows are there: what they are, what travels, and what is refused.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/recording.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using bucketing::Reducer;
using bucketing::SparseRows;
using comm::DType;
using suite::Context;
using testing::AllOf;
using testing::HasSubstr;

namespace {

constexpr std::int64_t kRows = 17;

// A rank's rows, and where they belong.
struct Entries {
  std::vector<std::int64_t> indices;
  std::vector<float> values;  // [indices][width]
  [[nodiscard]] SparseRows rows() const {
    return {.indices = indices, .values = {values.data(), std::ssize(values), DType::f32}};
  }
};

int count_of(Random& random, const std::string& entries, int rank) {
  if (entries == "none") return 0;
  if (entries == "of_last_rank") return rank == 0 ? 0 : random.between(0, 9);
  return entries == "even" ? 6 : random.between(0, 12);
}

// Of every rank, the same on every rank.
std::vector<Entries> drawn(Random& random, const std::string& entries, int ranks, std::int64_t width) {
  std::vector<Entries> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    Entries& own = all[static_cast<std::size_t>(rank)];
    std::vector<std::int64_t> order(kRows);
    std::iota(order.begin(), order.end(), 0);
    order = random.shuffled(order);
    const int count = count_of(random, entries, rank);
    for (int i = 0; i < count; ++i)
      own.indices.push_back(entries == "repeated" ? random.between(0, 4) : order[static_cast<std::size_t>(i)]);
    for (int i = 0; i < count; ++i) {
      const bool zeros = random.between(0, 3) == 0;  // a row that is there, and changes nothing
      for (std::int64_t column = 0; column < width; ++column)
        own.values.push_back(zeros ? 0 : static_cast<float>(random.between(-1'000'000, 1'000'000)) * 0x1p-17F);
    }
  }
  return all;
}

// Each rank's rows at their places, added in their order.
std::vector<float> dense(const Entries& own, std::int64_t width) {
  std::vector<float> values(static_cast<std::size_t>(kRows * width));
  for (std::size_t i = 0; i < own.values.size(); ++i) {
    const auto entry = i / static_cast<std::size_t>(width), column = i % static_cast<std::size_t>(width);
    values[static_cast<std::size_t>(own.indices[entry] * width) + column] += own.values[i];
  }
  return values;
}

// Each index that any rank has, once and in order.
std::vector<std::int64_t> indices_of_all(const std::vector<Entries>& all) {
  std::vector<std::int64_t> indices;
  for (const Entries& own : all) indices.insert(indices.end(), own.indices.begin(), own.indices.end());
  std::ranges::sort(indices);
  indices.erase(std::ranges::unique(indices).begin(), indices.end());
  return indices;
}

std::vector<float> dense_sum(const std::vector<Entries>& all, std::int64_t width, bool average) {
  std::vector<float> sum(static_cast<std::size_t>(kRows * width));
  for (const Entries& own : all) {
    const std::vector<float> values = dense(own, width);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  for (float& value : sum) value /= average ? static_cast<float>(all.size()) : 1;
  return sum;
}

// Without ranks, of the rank alone: nobody waits for it.
Reducer reducer_of(comm::Communicator& group, std::int64_t width, const bucketing::ReducerOptions& options) {
  const std::vector<bucketing::Gradient> gradients{{.elements = 5}, {.elements = kRows * width, .sparse = true}};
  return {{&group}, gradients, bucketing::plan_flat(gradients, std::vector{1, 0}), options};
}

void is_the_dense_sum(Context& context) {
  const std::string entries = context.parameters().text("entries");
  const bool average = context.parameters().text("result") == "average";
  for (int trial = 0; trial < 12; ++trial) {
    Random random(context.seed() + static_cast<std::uint64_t>(trial));
    const std::int64_t width = random.between(1, 5);
    bucketing::ReducerOptions options{.names = {"bias", "table"}, .average = average};
    if (trial % 2 == 1) options.reduced = [](int) {};
    if (trial % 3 == 1) options.unused = bucketing::Unused::zeros;
    Reducer reducer = reducer_of(context.world(), width, options);
    for (int step = 0; step < 2; ++step) {
      const std::vector<Entries> all = drawn(random, entries, context.size(), width);
      const Entries& own = all[static_cast<std::size_t>(context.rank())];
      reducer.begin();
      if (own.indices.empty() && trial % 3 == 1)
        reducer.mark_unused(1);
      else
        reducer.ready(1, own.rows());
      std::ranges::fill(std::span(static_cast<float*>(reducer.view(0).data), 5), 1.0F);
      reducer.ready(0);
      (void)reducer.finish();
      const SparseRows sum = reducer.rows(1);
      Entries found{.indices = {sum.indices.begin(), sum.indices.end()}, .values = {}};
      ASSERT_EQ(found.indices, indices_of_all(all)) << "BUCKET-210: each index of any rank, once and ascending";
      const auto* const values = static_cast<const float*>(sum.values.data);
      found.values.assign(values, values + sum.values.count);
      ASSERT_EQ(sum.values.count, std::ssize(sum.indices) * (sum.indices.empty() ? 0 : width)) << "BUCKET-210: numbers";
      ASSERT_EQ(dense(found, width), dense_sum(all, width, average))
          << "BUCKET-210: trial " << trial << ", step " << step << ", rows of " << width;
      EXPECT_EQ(static_cast<const float*>(reducer.view(0).data)[4], average ? 1 : static_cast<float>(context.size()))
          << "BUCKET-210: the dense gradient beside it";
      reducer.clear();
      EXPECT_TRUE(reducer.rows(1).indices.empty()) << "BUCKET-210: rows after the step";
    }
  }
}

// Whether the rows of two, of one f64 gradient of three rows, have its bits.
bool are_bits_of(const SparseRows& rows, const double* dense) {
  const auto* const values = static_cast<const double*>(rows.values.data);
  for (std::size_t i = 0; i < rows.indices.size(); ++i)
    if (std::memcmp(values + 2 * i, dense + 2 * rows.indices[i], 2 * sizeof(double)) != 0) return false;
  return true;
}

// Rows of f64, with an average that is divided before, after or in the collective, beside a dense gradient of the same
// values.
void of_doubles(Context& context) {
  const std::string division = context.parameters().text("division");
  const int ranks = context.size();
  bucketing::ReducerOptions options{.average = division != "sum"};
  if (division == "before") options.split = {ranks, 1};
  if (division == "after") options.split = {1, ranks};
  const std::vector<bucketing::Gradient> gradients{{.elements = 3 * 2, .dtype = DType::f64, .sparse = true},
                                                   {.elements = 3 * 2, .dtype = DType::f64}};
  Reducer reducer({&context.world()}, gradients, bucketing::plan_unfused(gradients), options);
  const double divisor = division == "sum" ? 1 : ranks;
  for (int step = 0; step < 2; ++step) {
    // Every rank has row 2, rank 0 has row 0 besides, with numbers that f32 does not hold and whose thirds f64 rounds.
    const double one = 1 + 0x1p-40;
    const std::vector<std::int64_t> indices =
        context.rank() == 0 ? std::vector<std::int64_t>{2, 0} : std::vector<std::int64_t>{2};
    const std::vector<double> values = context.rank() == 0 ? std::vector{one, 2.0, 5.0, 7.0} : std::vector{one, 2.0};
    reducer.begin();
    auto* const dense = static_cast<double*>(reducer.view(1).data);
    std::fill_n(dense, 6, 0.0);
    for (std::size_t i = 0; i < values.size(); ++i)
      dense[2 * static_cast<std::size_t>(indices[i / 2]) + i % 2] = values[i];
    reducer.ready(0, {.indices = indices, .values = {values.data(), std::ssize(values), DType::f64}});
    reducer.ready(1);
    (void)reducer.finish();
    const SparseRows sum = reducer.rows(0);
    ASSERT_EQ(sum.values.count, 4) << "BUCKET-210: numbers";
    EXPECT_THAT(sum.indices, testing::ElementsAre(0, 2)) << "BUCKET-210: rows";
    const double* const found = static_cast<const double*>(sum.values.data);
    const std::vector<double> expected{5 / divisor, 7 / divisor, one * ranks / divisor, 2 * ranks / divisor};
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-14) << "BUCKET-210: number " << i;
    if (context.world().capabilities().has(comm::Capability::rank_order)) {
      EXPECT_TRUE(are_bits_of(sum, static_cast<const double*>(reducer.view(1).data)))
          << "BUCKET-210: the bits of the dense gradient";
    }
    reducer.clear();
  }
}

void travels(Context& context) {
  const std::string entries = context.parameters().text("entries");
  constexpr std::int64_t width = 3;
  Random random(context.seed());
  const std::vector<Entries> all = drawn(random, entries, context.size(), width);
  std::int64_t most = 0;
  for (const Entries& own : all) {
    std::vector<std::int64_t> once = own.indices;
    std::ranges::sort(once);
    once.erase(std::ranges::unique(once).begin(), once.end());
    most = std::max(most, std::ssize(once));
  }
  RecordingCommunicator world(context.world().duplicate());
  Reducer reducer = reducer_of(world, width, {});
  reducer.begin();
  world.calls.clear();
  reducer.ready(1, all[static_cast<std::size_t>(context.rank())].rows());
  reducer.ready(0);
  (void)reducer.finish();
  std::vector<std::int64_t> bytes;
  for (const RecordedCall& call : world.calls)
    if (call.operation == comm::Operation::all_gather)
      bytes.push_back(call.elements * static_cast<std::int64_t>(comm::size_of(call.dtype)));
  EXPECT_EQ(bytes,
            most == 0 ? std::vector<std::int64_t>{16} : (std::vector<std::int64_t>{16, 8 * most, 4 * most * width}))
      << "BUCKET-211: bytes of each gathering: how many rows, their indices, their numbers";
}

void refuses_rows(Context& context) {
  const std::string what = context.parameters().text("what");
  const auto own = context.world().create_group(std::vector{context.rank()});
  Reducer reducer = reducer_of(*own, 2, {.names = {"bias", "table"}});
  Entries entries{.indices = {0, kRows - 1}, .values = {1, 2, 3, 4}};
  if (what == "beyond") entries.indices[1] = kRows;
  if (what == "below") entries.indices[0] = -1;
  if (what == "uneven") entries.values.pop_back();
  if (what == "width") entries.values.assign(6, 1);  // 34 numbers are not rows of 3
  const std::vector<double> wide(4);
  SparseRows rows = entries.rows();
  if (what == "type") rows.values = {wide.data(), 4, DType::f64};
  if (what == "no_rows") rows.indices = {};
  if (what == "no_numbers") rows.values.count = 0;
  if (what == "device") rows.values.device = {comm::Device::Kind::cuda, 0};
  if (what == "empty") rows = {.indices = {}, .values = {nullptr, 0, DType::f32}};
  reducer.begin();
  const std::string said = refusal<InvalidArgument>([&] {
    if (what == "dense")
      reducer.ready(1);
    else
      reducer.ready(what == "of_dense" ? 0 : 1, rows);
  });
  const std::map<std::string, std::string> words{{"nothing", kNotRefused},
                                                 {"empty", kNotRefused},
                                                 {"no_rows", ""},
                                                 {"no_numbers", ""},
                                                 {"device", ""},
                                                 {"beyond", "row 17; there are 0 to 16"},
                                                 {"below", "row -1; there are 0 to 16"},
                                                 {"uneven", "3 numbers in 2 rows"},
                                                 {"width", "rows of 3 numbers, where it has 34 in all"},
                                                 {"type", "rows of f64, where it is of f32"},
                                                 {"dense", "is planned as sparse, and comes as a whole"},
                                                 {"of_dense", "is planned as dense, and comes as rows"}};
  EXPECT_THAT(said, HasSubstr(words.at(what))) << "BUCKET-212";
  const char* of = what == "nothing" || what == "empty" ? "" : what == "of_dense" ? "'bias'" : "'table'";
  EXPECT_THAT(said, HasSubstr(of)) << "BUCKET-212: whose";
}

void other_widths(Context& context) {
  const bool differ = context.parameters().text("widths") == "differ";
  Reducer reducer = reducer_of(context.world(), 6, {.names = {"bias", "table"}});
  const Entries entries{.indices = {1}, .values = std::vector<float>(differ && context.rank() == 1 ? 3 : 6, 1.0F)};
  const std::string said = refusal<comm::MismatchError>([&] {
    reducer.begin();
    reducer.ready(1, entries.rows());
    reducer.ready(0);
    (void)reducer.finish();
  });
  EXPECT_THAT(said, HasSubstr(differ ? "rows of 6 numbers on rank 0, of 3 on rank 1" : kNotRefused)) << "BUCKET-212";
}

}  // namespace

void add_sparse_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds, bool spoils = false) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("bucketing.sparse.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .spoils_group = spoils,
               .body = body});
  };
  const suite::Axis entries{"entries", {"even", "uneven", "repeated", "of_last_rank", "none"}};
  add("is_the_dense_sum", "BUCKET-210@4f2b", {entries, {"result", {"average", "sum"}}}, is_the_dense_sum, {1, 2, 3, 4});
  add("of_doubles", "BUCKET-210@4f2b", {{"division", {"collective", "before", "after", "sum"}}}, of_doubles, {1, 2, 3});
  add("travels", "BUCKET-211@132d", {entries}, travels, {1, 2, 3});
  add("refuses_rows", "BUCKET-212@8e55",
      {{"what",
        {"nothing", "beyond", "below", "uneven", "width", "type", "dense", "of_dense", "no_rows", "no_numbers",
         "device", "empty"}}},
      refuses_rows, {1, 3});
  add("other_widths", "BUCKET-212@8e55", {{"widths", {"alike", "differ"}}}, other_widths, {2, 3}, true);
}

}  // namespace plumbline::conformance
