// Collectives whose blocks differ in length: every block whole and at its place, empty ones included.
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/data.hpp"
#include "conformance/collectives/trials.hpp"
#include "conformance/support/words.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using comm::UnevenCall;
using suite::Context;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<std::byte>;
using Counts = std::vector<std::int64_t>;

// How many elements rank `from` has for rank `to`.
struct Lengths {
  const char* name;
  std::int64_t (*count)(int from, int to, int ranks);
};
constexpr std::array kLengths{
    Lengths{"growing", [](int from, int to, int) { return std::int64_t{from} + 2 * to; }},
    Lengths{"none", [](int, int, int) { return std::int64_t{0}; }},
    Lengths{"one", [](int from, int to, int ranks) { return std::int64_t{from == ranks - 1 && to == 0 ? 257 : 0}; }},
    Lengths{"irregular", [](int from, int to, int) { return std::int64_t{(from * 7 + to * 13 + 5) * 29 % 61}; }},
    Lengths{"large",
            [](int from, int to, int) { return std::int64_t{from == 0 ? 40000 + to : 3000 * (to + 1) + from}; }},
    Lengths{"equal", [](int, int, int) { return std::int64_t{5}; }}};

const Lengths& lengths_of(Context& context) {
  const std::string& name = context.parameters().text("lengths");
  return *std::ranges::find_if(kLengths, [&](const Lengths& one) { return name == one.name; });
}

suite::Axis lengths_axis() {
  suite::Axis axis{"lengths", {}};
  for (const Lengths& one : kLengths) axis.values.emplace_back(one.name);
  return axis;
}

// count(rank) of each rank.
Counts each(int ranks, const auto& count) {
  Counts counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(count(rank));
  return counts;
}

std::int64_t before(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::int64_t{0});
}

// `count` elements that `rank` gives, from `first` on.
Bytes given(Context& context, DType dtype, int rank, std::int64_t first, std::int64_t count) {
  Bytes bytes(static_cast<std::size_t>(count) * size_of(dtype));
  fill_with_bits(context.seed(), rank, dtype, first, bytes);
  return bytes;
}

void append(Bytes& all, const Bytes& some) { all.insert(all.end(), some.begin(), some.end()); }

// Of nothing there need be no memory.
template <class View>
View lent(View view) {
  if (view.count == 0) view.data = nullptr;
  return view;
}

void expect_right(const GuardedOutput& out, DType dtype, const Counts& counts) {
  const std::string problem = out.wrong_result();
  if (!problem.empty()) report(fmt::format("{} x [{}]: {}", name_of(dtype), fmt::join(counts, " "), problem));
}

// Into a buffer, from element `first` on.
void put(const comm::Buffer& whole, std::int64_t first, const Bytes& bytes) {
  if (!bytes.empty()) std::memcpy(part_of(whole, first, 0).data, bytes.data(), bytes.size());
}

void all_gather(Context& context, const Lengths& lengths, DType dtype, bool in_place) {
  const int ranks = context.size(), me = context.rank();
  const Counts counts = each(ranks, [&](int rank) { return lengths.count(rank, 0, ranks); });
  const std::int64_t own = counts[static_cast<std::size_t>(me)];
  Bytes expected;
  for (int rank = 0; rank < ranks; ++rank)
    append(expected, given(context, dtype, rank, 0, counts[static_cast<std::size_t>(rank)]));
  const Bytes mine = given(context, dtype, me, 0, own);
  const GuardedInput apart(dtype, mine);
  GuardedOutput all(dtype, expected);
  comm::ConstBuffer in = lent(apart.view());
  if (in_place) {
    in = part_of(all.view(), before(counts, me), own);
    put(all.view(), before(counts, me), mine);
  }
  context.world().run_uneven(
      {.operation = Operation::all_gather, .in = in, .out = lent(all.view()), .out_counts = counts});
  expect_right(all, dtype, counts);
}

void every_gather(Context& context, bool in_place) {
  for (const DType dtype : claimed(context.capabilities())) all_gather(context, lengths_of(context), dtype, in_place);
}

// In place: the result takes the place of the own block, and nothing else of the input changes.
void reduce_scatter(Context& context, const Lengths& lengths, DType dtype, ReduceOp op, bool in_place) {
  const int ranks = context.size(), me = context.rank();
  const Counts counts = each(ranks, [&](int rank) { return lengths.count(ranks - 1, rank, ranks); });
  const std::int64_t own = counts[static_cast<std::size_t>(me)];
  const ExactNumbers numbers(dtype, op, ranks, context.seed());
  Bytes whole(static_cast<std::size_t>(before(counts, ranks)) * size_of(dtype));
  numbers.give(me, 0, whole);
  Bytes block(static_cast<std::size_t>(own) * size_of(dtype));
  numbers.result(before(counts, me), block);
  const UnevenCall call{.operation = Operation::reduce_scatter, .op = op, .in_counts = counts};
  if (in_place) {
    Bytes expected = whole;
    std::ranges::copy(block, expected.begin() + before(counts, me) * static_cast<std::int64_t>(size_of(dtype)));
    GuardedOutput both(dtype, expected);
    put(both.view(), 0, whole);
    UnevenCall made = call;
    made.in = both.view();
    made.out = part_of(both.view(), before(counts, me), own);
    context.world().run_uneven(made);
    return expect_right(both, dtype, counts);
  }
  const GuardedInput in(dtype, whole);
  GuardedOutput out(dtype, block);
  UnevenCall made = call;
  made.in = lent(in.view());
  made.out = lent(out.view());
  context.world().run_uneven(made);
  expect_right(out, dtype, counts);
}

void every_reduction(Context& context, bool in_place) {
  for (const DType dtype : claimed(context.capabilities()))
    for (const ReduceOp op : ops_on(dtype)) reduce_scatter(context, lengths_of(context), dtype, op, in_place);
}

void all_to_all(Context& context, comm::Communicator& group, const Lengths& lengths, DType dtype) {
  const int ranks = group.size(), me = group.rank();
  const auto sent_by = [&](int from) { return each(ranks, [&](int to) { return lengths.count(from, to, ranks); }); };
  const Counts to = sent_by(me);
  const Counts from = each(ranks, [&](int rank) { return lengths.count(rank, me, ranks); });
  Bytes expected;
  for (int rank = 0; rank < ranks; ++rank)
    append(expected, given(context, dtype, rank, before(sent_by(rank), me), from[static_cast<std::size_t>(rank)]));
  const GuardedInput in(dtype, given(context, dtype, me, 0, before(to, ranks)));
  GuardedOutput out(dtype, expected);
  group.run_uneven({.operation = Operation::all_to_all,
                    .in = lent(in.view()),
                    .out = lent(out.view()),
                    .in_counts = to,
                    .out_counts = from});
  expect_right(out, dtype, from);
}

// ---- bool, the formats of 8 bits, complex numbers ----

void gather_optional(Context& context) {
  for (const bool in_place : {false, true})
    all_gather(context, lengths_of(context), context.parameters().dtype(), in_place);
}

void exchange_optional(Context& context) {
  all_to_all(context, context.world(), lengths_of(context), context.parameters().dtype());
}

template <ReduceOp... ops>
void reduce_optional(Context& context) {
  for (const bool in_place : {false, true})
    for (const ReduceOp op : {ops...})
      reduce_scatter(context, lengths_of(context), context.parameters().dtype(), op, in_place);
}

void add_optional_dtypes(suite::Suite& suite) {
  using comm::Capability;
  const auto add = [&](const char* id, const char* citation, const suite::Axis& dtypes, Capability claim, auto body) {
    suite.add({.id = id,
               .verifies = {citation},
               .axes = {dtypes, lengths_axis(), suite::worlds({2, 3, 5})},
               .needs = {claim},
               .body = body});
  };
  const suite::Axis boolean{"dtype", {"bool"}}, float8{"dtype", {"f8_e4m3", "f8_e5m2"}};
  const suite::Axis complex{"dtype", {"c64", "c128"}};
  add("collectives.optional_dtypes.uneven_exchanges", "COLL-107@0ba3", {"dtype", {"bool", "f8_e4m3", "f8_e5m2"}},
      Capability::all_to_all_v, exchange_optional);
  add("collectives.optional_dtypes.uneven_bool_reductions", "COLL-108@1694", boolean, Capability::reduce_scatter_v,
      reduce_optional<ReduceOp::min, ReduceOp::max>);
  add("collectives.optional_dtypes.uneven_float8", "COLL-109@51a2", float8, Capability::reduce_scatter_v,
      reduce_optional<ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::product>);
  add("collectives.complex.uneven_gathers", "COLL-120@097b", complex, Capability::all_gather_v, gather_optional);
  add("collectives.complex.uneven_exchanges", "COLL-120@097b", complex, Capability::all_to_all_v, exchange_optional);
  add("collectives.complex.uneven_sums", "COLL-121@aeb3", complex, Capability::reduce_scatter_v,
      reduce_optional<ReduceOp::sum, ReduceOp::avg>);
  add("collectives.complex.uneven_products", "COLL-122@8d84", complex, Capability::reduce_scatter_v,
      reduce_optional<ReduceOp::product>);
}

// ---- beside other calls ----

// Two groups of all members take turns, with a reduction of each under way.
void in_order(Context& context) {
  const auto other = context.world().duplicate();
  const DType dtype = some_dtype(context.capabilities());
  for (int turn = 0; turn < 4; ++turn) {
    const Exercise first(context.world(), {.elements = 33 + turn, .seed = context.seed()});
    const Exercise second(*other, {.elements = 70 + turn, .seed = context.seed() + 1});
    std::vector<comm::Work> works;
    for (const comm::Call& call : first.calls()) works.push_back(context.world().start(call));
    for (const comm::Call& call : second.calls()) works.push_back(other->start(call));
    for (const Lengths& lengths : kLengths) {
      all_to_all(context, context.world(), lengths, dtype);
      all_to_all(context, *other, lengths, dtype);
    }
    for (comm::Work& work : works) work.wait();
    report(first.problem());
    report(second.problem());
  }
}

// ---- members that disagree ----

constexpr int kDeviant = 1;

// Counts that the deviant has changed, with the buffers that go with them, so that no member can see it by itself.
void disagree(Context& context, Operation operation) {
  const auto victim = context.world().duplicate();
  const int ranks = context.size();
  Counts counts(static_cast<std::size_t>(ranks), 3);
  const bool deviates = context.rank() == kDeviant;
  if (deviates) counts.front() = 4;
  const DType dtype = some_dtype(context.capabilities());
  const std::int64_t all = before(counts, ranks), own = counts[static_cast<std::size_t>(context.rank())];
  const Counts others(static_cast<std::size_t>(ranks), 3);
  UnevenCall call{.operation = operation, .in_counts = counts, .out_counts = others};
  if (operation == Operation::all_gather) call.in_counts = {}, call.out_counts = counts;
  if (operation == Operation::reduce_scatter) call.out_counts = {};
  const bool gathers = operation == Operation::all_gather;
  const GuardedInput in(dtype, given(context, dtype, context.rank(), 0, gathers ? own : all));
  GuardedOutput out(dtype, gathers ? all : operation == Operation::all_to_all ? before(others, ranks) : own);
  call.in = in.view();
  call.out = out.view();
  const std::string message =
      words_of<comm::MismatchError>([&] { victim->run_uneven(call); }, fmt::format("{}_v", name_of(operation)));
  EXPECT_EQ(missing_words(without_ranks(message), {"3", "4"}), "") << "is not in: " << message;
  report(out.touched());
}

void disagreement(Context& context) {
  for (const Operation operation : {Operation::all_gather, Operation::reduce_scatter, Operation::all_to_all})
    disagree(context, operation);
  // One member makes a call of equal blocks.
  const auto victim = context.world().duplicate();
  const Counts ones(static_cast<std::size_t>(context.size()), 1);
  const DType dtype = some_dtype(context.capabilities());
  const Bytes mine = given(context, dtype, context.rank(), 0, context.size());
  const GuardedInput in(dtype, mine);
  GuardedOutput out(dtype, std::int64_t{context.size()});
  words_of<comm::MismatchError>(
      [&] {
        if (context.rank() == kDeviant) return victim->all_to_all(in.view(), out.view());
        victim->run_uneven({.operation = Operation::all_to_all,
                            .in = in.view(),
                            .out = out.view(),
                            .in_counts = ones,
                            .out_counts = ones});
      },
      "all_to_all_v beside all_to_all");
  report(out.touched());
  expect_usable(context.world());
}

// ---- a member that does not come ----

// Where calls cannot be taken back the memory of this one must stay until the process ends.
struct Lasting {
  Counts counts;
  Bytes in, out;
};

// One member waits alone: of members that wait together the first to give up fails the group of the others.
void absent_member(Context& context) {
  const auto victim = context.world().duplicate();
  const DType dtype = some_dtype(context.capabilities());
  const auto ranks = static_cast<std::size_t>(context.size());
  if (context.rank() == 0) {
    static std::vector<std::unique_ptr<Lasting>> lasting;
    static std::mutex mutex;
    Lasting* memory = nullptr;
    {
      const std::lock_guard hold(mutex);
      const Bytes block(ranks * 2 * size_of(dtype));
      memory = lasting.emplace_back(std::make_unique<Lasting>(Lasting{Counts(ranks, 2), block, block})).get();
    }
    const auto all = 2 * static_cast<std::int64_t>(ranks);
    const UnevenCall call{.operation = Operation::all_to_all,
                          .in = {memory->in.data(), all, dtype},
                          .out = {memory->out.data(), all, dtype},
                          .in_counts = memory->counts,
                          .out_counts = memory->counts};
    expect_timeout(20ms, [&] { victim->run_uneven(call, 20ms); });
    words_of<comm::PeerFailed>([&] { victim->run_uneven(call, 20ms); }, "all_to_all_v on a group that has failed");
  }
  context.world().barrier();
}

}  // namespace

void add_uneven_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, auto body, suite::Axis worlds = suite::fewer_worlds()) {
    suite.add({.id = id, .verifies = {citation}, .axes = {lengths_axis(), std::move(worlds)}, .body = body});
  };
  add(
      "collectives.uneven.all_gather", "COLL-100@e78f", [](Context& context) { every_gather(context, false); },
      suite::worlds());
  add("collectives.uneven.reduce_scatter", "COLL-101@5bbe", [](Context& context) { every_reduction(context, false); });
  add("collectives.uneven.all_to_all", "COLL-102@e8a5", [](Context& context) {
    for (const DType dtype : claimed(context.capabilities()))
      all_to_all(context, context.world(), lengths_of(context), dtype);
  });
  add("collectives.uneven.in_place", "COLL-103@881b", [](Context& context) {
    every_gather(context, true);
    every_reduction(context, true);
  });
  add_optional_dtypes(suite);
  suite.add({.id = "collectives.uneven.in_order",
             .verifies = {"COLL-104@5c1e"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = in_order});
  suite.add({.id = "collectives.uneven.disagreement",
             .verifies = {"COLL-105@36ca"},
             .axes = {suite::worlds({2, 3, 5})},
             .spoils_group = true,
             .body = disagreement});
  suite.add({.id = "collectives.uneven.absent_member",
             .verifies = {"COLL-106@5d47"},
             .axes = {suite::worlds({2, 3})},
             .spoils_group = true,
             .body = absent_member});
}

}  // namespace plumbline::conformance
