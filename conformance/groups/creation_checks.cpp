// In which order groups are made, what is noted of it, and what may decide about it.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "conformance/collectives/trials.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "reference/groups/colossalai.hpp"

namespace plumbline::conformance {

using groups::Creation;
using groups::ParallelContext;
using nlohmann::json;
using suite::Context;

namespace {

// Hands on the sum of all bytes, each by its place: other texts have other sums, but for chance.
std::int64_t fingerprint(const std::vector<std::string>& lines) {
  std::uint64_t sum = 1;
  for (const std::string& line : lines)
    for (const char letter : line + "\n") sum = sum * 1000003 + static_cast<unsigned char>(letter);
  return static_cast<std::int64_t>(sum >> 1);
}

void log_of_creations(Context& context) {
  std::vector<Creation> creations;
  if (context.parameters().text("plan") == "whole")
    for (const char* mode : {"ONE", "TWO", "THREE"})
      creations.push_back({.mode = mode, .ranks = list_named("whole", context.size())});
  else
    creations = groups::colossalai_plan(context.size(), {.pipeline = context.size()}).creations;
  std::vector<std::string> lines;
  const ParallelContext modes =
      context_over(context, plan_of(context, creations),
                   {.timeout = {}, .log = [&](const std::string& line) { lines.push_back(line); }});
  ASSERT_EQ(lines.size(), creations.size()) << "also groups without this rank are noted";
  std::vector<std::string> without_rank;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const json line = json::parse(lines[i]);
    EXPECT_EQ(line.at("rank"), context.rank());
    EXPECT_EQ(line.at("sequence"), i);
    EXPECT_EQ(line.at("mode"), creations[i].mode);
    EXPECT_EQ(line.at("ranks"), creations[i].ranks);
    without_rank.push_back(line.at("mode").dump() + line.at("ranks").dump());
  }
  const std::vector own{fingerprint(without_rank)};
  const GuardedInput sent(own);
  GuardedOutput smallest(own);
  context.world().all_reduce(sent.view(), smallest.view(), comm::ReduceOp::min);
  report(smallest.wrong_result());
}

// How many ranks each node has.
std::vector<int> nodes_named(const std::string& name, int n) {
  if (name == "alone") return std::vector<int>(static_cast<std::size_t>(n), 1);
  if (name == "even") return {n / 2, n / 2};
  return {n - 1, 1};
}

std::vector<Creation> groups_of_nodes(const std::vector<int>& nodes) {
  std::vector<Creation> creations;
  std::vector<int> leaders;
  for (int first = 0; const int size : nodes) {
    Creation node{.mode = "NODE", .ranks = {}};
    leaders.push_back(first);
    while (static_cast<int>(node.ranks.size()) < size) node.ranks.push_back(first++);
    creations.push_back(node);
  }
  creations.push_back({.mode = "LEADERS", .ranks = leaders});
  return creations;
}

// A group for each node, and one of their first ranks: all ranks know how many ranks each node has.
void nodes(Context& context) {
  const auto creations = groups_of_nodes(nodes_named(context.parameters().text("nodes"), context.size()));
  const ParallelContext modes =
      context_over(context, plan_of(context, creations), {.timeout = std::chrono::seconds(5), .log = {}});
  for (const Creation& creation : creations) {
    if (!contains(creation.ranks, context.rank())) continue;
    ASSERT_TRUE(modes.has(creation.mode));
    expect_members(modes.communicator(creation.mode), context.rank(), creation.ranks, creation.mode);
  }
}

}  // namespace

void add_creation_checks(suite::Suite& suite) {
  suite.add({.id = "groups.creation.log",
             .verifies = {"GROUP-015@dd21"},
             .axes = {{"plan", {"whole", "stages"}}, suite::worlds({2, 3, 4, 6})},
             .deadlock_prone = true,
             .body = log_of_creations});
  suite.add({.id = "groups.creation.nodes",
             .verifies = {"GROUP-016@fb42"},
             .axes = {{"nodes", {"even", "uneven", "alone"}}, suite::worlds({3, 4, 6})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return parameters.text("nodes") != "even" || parameters.world() % 2 == 0;
                 },
             .limit = std::chrono::seconds(10),
             .deadlock_prone = true,
             .body = nodes});
}

}  // namespace plumbline::conformance
