// What a context says of a mode: lookups, neighbours, translations, roots.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/trials.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "reference/comm/errors.hpp"
#include "reference/groups/colossalai.hpp"

namespace plumbline::conformance {

using groups::ParallelContext;
using suite::Context;

namespace {

// A number to the next rank of a mode, and one from the previous, as one batch.
void send_round(const ParallelContext& modes, const std::string& mode, int previous) {
  comm::Communicator& group = modes.communicator(mode);
  const GuardedInput own(std::vector<std::int64_t>{modes.rank()});
  GuardedOutput from_previous(std::vector<std::int64_t>{previous});
  const comm::Call calls[] = {
      {.operation = comm::Operation::send, .root = modes.to_group_rank(mode, modes.next(mode)), .in = own.view()},
      {.operation = comm::Operation::recv,
       .root = modes.to_group_rank(mode, modes.previous(mode)),
       .out = from_previous.view()}};
  group.start(calls).wait();
  report(from_previous.wrong_result());
}

void neighbours(Context& context) {
  const auto sizes = AxisSizes::parse(context.parameters().text("sizes"));
  const ParallelContext modes =
      context_over(context, groups::colossalai_plan(context.size(), {.pipeline = sizes.pipeline,
                                                                     .tensor = sizes.tensor,
                                                                     .mode = groups::TensorMode::one_dimensional,
                                                                     .depth = {}}));
  const Place own = place_of(sizes, Slowest::data, context.rank());
  const auto stage_after = [&](int distance) {
    Place there = own;
    there.pipeline = (own.pipeline + distance + sizes.pipeline) % sizes.pipeline;
    return rank_at(sizes, Slowest::data, there);
  };
  if (sizes.pipeline > 1) {
    EXPECT_EQ(modes.next("PIPELINE"), stage_after(+1));
    EXPECT_EQ(modes.previous("PIPELINE"), stage_after(-1));
    send_round(modes, "PIPELINE", stage_after(-1));
  }
  // Members of a model group are neighbours by number, around the end.
  const int model = sizes.pipeline * sizes.tensor;
  const auto beside = [&](int distance) {
    return context.rank() / model * model + (context.rank() % model + distance + model) % model;
  };
  EXPECT_EQ(modes.next("MODEL"), beside(+1));
  EXPECT_EQ(modes.previous("MODEL"), beside(-1));
  send_round(modes, "MODEL", beside(-1));
}

void lookup(Context& context) {
  const ParallelContext modes =
      context_over(context, plan_of(context, {{.mode = "ALL", .ranks = list_named("whole", context.size())},
                                              {.mode = "TAIL", .ranks = list_named("without_first", context.size())}}));
  const std::string& asked = context.parameters().text("asked");
  if (asked == "known") {
    expect_members(modes.communicator("ALL"), context.rank(), list_named("whole", context.size()), "ALL");
    if (context.rank() > 0)
      expect_members(modes.communicator("TAIL"), context.rank(), list_named("without_first", context.size()), "TAIL");
  }
  if (asked == "unknown") {
    for (const char* name : {"TAI", "tail", ""}) {
      const auto ask = [&] { (void)modes.communicator(name); };
      expect_named(words_of<NotFound>(ask, fmt::format("mode '{}'", name)), {"ALL", "TAIL"});
      EXPECT_FALSE(modes.has(name));
    }
    words_of<NotFound>([&] { (void)modes.next("HEAD"); }, "the next rank of a mode that is not there");
  }
  if (asked == "without_a_part" && context.rank() == 0) {
    EXPECT_FALSE(modes.has("TAIL"));
    expect_named(words_of<StateError>([&] { (void)modes.communicator("TAIL"); }, "a mode without this rank"), {"TAIL"});
    words_of<StateError>([&] { (void)modes.ranks("TAIL"); }, "the ranks of a mode without this one");
  }
}

ParallelContext one_mode(Context& context, const std::vector<int>& list) {
  return context_over(context, plan_of(context, {{.mode = "ONE", .ranks = list}}));
}

void translation(Context& context) {
  const std::vector<int> list = list_named(context.parameters().text("list"), context.size());
  const ParallelContext modes = one_mode(context, list);
  if (!contains(list, context.rank())) return;
  const auto size = static_cast<int>(list.size());
  for (int position = 0; position < size; ++position) {
    EXPECT_EQ(modes.to_world_rank("ONE", position), list[static_cast<std::size_t>(position)]);
    EXPECT_EQ(modes.to_group_rank("ONE", list[static_cast<std::size_t>(position)]), position);
  }
  for (const int stranger : {-1, context.size()})
    words_of<InvalidArgument>([&] { (void)modes.to_group_rank("ONE", stranger); },
                              "the place of a rank that is no member");
  if (!contains(list, 0))
    expect_named(words_of<InvalidArgument>([&] { (void)modes.to_group_rank("ONE", 0); }, "the place of rank 0"), {"0"});
  for (const int position : {-1, size})
    expect_named(words_of<OutOfRange>([&] { (void)modes.to_world_rank("ONE", position); }, "a place that is not there"),
                 {std::to_string(position)});
}

// Neighbours are those in the list, whatever its numbers: as told, and as messages go.
void neighbours_in_list(Context& context) {
  const std::vector<int> list = list_named(context.parameters().text("list"), context.size());
  const ParallelContext modes = one_mode(context, list);
  if (!contains(list, context.rank())) return;
  const auto size = list.size();
  const auto place = static_cast<std::size_t>(std::ranges::find(list, context.rank()) - list.begin());
  const int next = list[(place + 1) % size], previous = list[(place + size - 1) % size];
  EXPECT_EQ(modes.next("ONE"), next);
  EXPECT_EQ(modes.previous("ONE"), previous);
  if (next == modes.next("ONE") && previous == modes.previous("ONE")) send_round(modes, "ONE", previous);
}

void named_root(Context& context) {
  const std::vector<int> list = list_named(context.parameters().text("list"), context.size());
  const ParallelContext modes = one_mode(context, list);
  if (!contains(list, context.rank())) return;
  for (const int root : list)
    expect_broadcast([&](comm::Buffer buffer) { modes.broadcast("ONE", buffer, root); }, context.rank(), root);
}

void initial_values(Context& context) {
  const std::vector<int> list = list_named(context.parameters().text("list"), context.size());
  const ParallelContext modes = one_mode(context, list);
  if (!contains(list, context.rank())) return;
  EXPECT_EQ(modes.root("ONE"), list.front());
  expect_broadcast([&](comm::Buffer buffer) { modes.broadcast_initial("ONE", buffer); }, context.rank(), list.front());
}

suite::Axis lists() { return {"list", {"whole", "without_first", "odd", "descending", "interleaved"}}; }

}  // namespace

void add_lookup_checks(suite::Suite& suite) {
  suite.add({.id = "groups.modes.neighbours",
             .verifies = {"GROUP-006@10bc"},
             .axes = {{"sizes", {"1x1x1", "2x1x1", "3x1x1", "1x3x1", "3x2x1", "2x1x3", "4x1x2"}},
                      suite::worlds({1, 2, 3, 6, 8})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return AxisSizes::parse(parameters.text("sizes")).world() == parameters.world();
                 },
             .needs = {comm::Capability::nonblocking, comm::Capability::point_to_point, comm::Capability::coalescing},
             .limit = std::chrono::seconds(10),
             .deadlock_prone = true,
             .body = neighbours});
  suite.add({.id = "groups.modes.lookup",
             .verifies = {"GROUP-007@474f"},
             .axes = {{"asked", {"known", "unknown", "without_a_part"}}, suite::worlds({2, 3, 4})},
             .body = lookup});
  suite.add({.id = "groups.ranks.translation",
             .verifies = {"GROUP-008@7247"},
             .axes = {lists(), suite::worlds({2, 3, 4, 6})},
             .body = translation});
  suite.add({.id = "groups.ranks.neighbours",
             .verifies = {"GROUP-006@10bc"},
             .axes = {{"list", {"descending", "interleaved", "odd", "unequal_strides", "some_of_them"}},
                      suite::worlds({3, 4, 6, 8})},
             .needs = {comm::Capability::nonblocking, comm::Capability::point_to_point, comm::Capability::coalescing},
             .limit = std::chrono::seconds(10),
             .deadlock_prone = true,
             .body = neighbours_in_list});
  suite.add({.id = "groups.roots.named",
             .verifies = {"GROUP-009@a352"},
             .axes = {lists(), suite::worlds({2, 3, 4, 6, 8})},
             .deadlock_prone = true,
             .body = named_root});
  suite.add({.id = "groups.roots.initial_values",
             .verifies = {"GROUP-010@d7e5"},
             .axes = {lists(), suite::worlds({2, 3, 4, 6, 8})},
             .deadlock_prone = true,
             .body = initial_values});
}

}  // namespace plumbline::conformance
