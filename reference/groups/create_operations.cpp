// groups.create: process groups that ranks make from their plans, and what each rank then has.
#include "reference/groups/detail/create_operations.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/comm/local.hpp"
#include "reference/groups/parallel_context.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

constexpr int kMostCreatingRanks = 16;
constexpr std::size_t kMostCreations = 256;  // of a plan
constexpr double kLongestLimit = 20;         // seconds; less than a barrier waits

struct Creating {
  std::vector<groups::Plan> plans;  // of each rank
  std::vector<std::string> lookups;
  std::optional<int> absent, failing;  // ranks that do not come, or whose log throws
  std::string log_error;               // what it throws
  comm::Timeout limit;
  std::vector<std::vector<std::string>> sums;  // modes of which each rank starts a sum, in this order
};

groups::Plan plan_of(const Arguments& arguments, const std::vector<Arguments>& creations, int world) {
  if (creations.size() > kMostCreations)
    arguments.refuse(
        fmt::format("plans has {} groups of a rank; they are at most {}", creations.size(), kMostCreations));
  groups::Plan plan{.convention = "plumbline", .world_size = world};
  for (const Arguments& one : creations)
    plan.creations.push_back({one.get<std::string>("mode"), one.get<std::vector<int>>("ranks")});
  return plan;
}

// Members of one of two groups would wait for the others, who are in the other one.
void require_one_group_of_a_mode(const Arguments& arguments, const groups::Plan& plan) {
  std::map<std::pair<std::string, int>, std::size_t> creation_of;
  for (std::size_t at = 0; at < plan.creations.size(); ++at)
    for (const int rank : plan.creations[at].ranks)
      if (creation_of.emplace(std::pair(plan.creations[at].mode, rank), at).first->second != at)
        arguments.refuse(fmt::format("plans has rank {} in two groups of mode '{}'", rank, plan.creations[at].mode));
}

Creating creating_in(const Arguments& arguments, int world) {
  Creating all;
  const auto plans = arguments.get<std::vector<std::vector<Arguments>>>("plans");
  const auto worlds = arguments.get<std::vector<int>>("planned_worlds", {});
  const auto ranks = static_cast<std::size_t>(world);
  if (plans.size() != 1 && plans.size() != ranks)
    arguments.refuse(
        fmt::format("plans has {} entries; there is one for all, or one for each of {} ranks", plans.size(), world));
  if (!worlds.empty() && worlds.size() != ranks)
    arguments.refuse(fmt::format("planned_worlds has {} entries for {} ranks", worlds.size(), world));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    all.plans.push_back(plan_of(arguments, plans[plans.size() == 1 ? 0 : rank], worlds.empty() ? world : worlds[rank]));
    require_one_group_of_a_mode(arguments, all.plans.back());
  }
  all.lookups = arguments.get<std::vector<std::string>>("lookups", {});
  for (const auto& [name, rank] : {std::pair("absent", &all.absent), {"failing_log", &all.failing}})
    if (arguments.has(name)) *rank = static_cast<int>(arguments.integer_in(name, 0, world - 1));
  all.log_error = arguments.get<std::string>("log_error", "the log of this rank cannot be written");
  if (const auto limit = arguments.find<double>("limit")) {
    if (!(*limit > 0 && *limit <= kLongestLimit))
      arguments.refuse(fmt::format("limit is {} s; it is above 0 and at most {}", *limit, kLongestLimit));
    all.limit = std::chrono::nanoseconds(std::llround(*limit * 1e9));
  }
  all.sums = arguments.get<std::vector<std::vector<std::string>>>("sums", {});
  if (!all.sums.empty() && all.sums.size() != ranks)
    arguments.refuse(fmt::format("sums has {} entries for {} ranks", all.sums.size(), world));
  return all;
}

json error_of_rank(const Error& error) { return {{"kind", error.kind()}, {"message", error.what()}}; }

// A number that the group makes of its members' world ranks.
std::int64_t broadcast_from(const groups::ParallelContext& context, const std::string& mode, int root) {
  std::int64_t value = context.rank();
  const comm::Buffer buffer{&value, 1, comm::DType::i64};
  if (root >= 0)
    context.broadcast(mode, buffer, root);
  else
    context.broadcast_initial(mode, buffer);
  return value;
}

json used(const groups::ParallelContext& context, const std::string& mode) {
  const std::vector<int>& ranks = context.ranks(mode);
  std::vector<std::int64_t> gathered(ranks.size());
  std::int64_t mine = context.rank();
  context.communicator(mode).all_gather(
      {&mine, 1, comm::DType::i64}, {gathered.data(), static_cast<std::int64_t>(gathered.size()), comm::DType::i64});
  json positions = json::array(), members = json::array();
  for (int rank = 0; rank < context.world_size(); ++rank) try {
      positions.push_back(context.to_group_rank(mode, rank));
    } catch (const InvalidArgument&) {
      positions.push_back(nullptr);
    }
  for (int position = 0; position <= context.size(mode); ++position) try {
      members.push_back(context.to_world_rank(mode, position));
    } catch (const OutOfRange&) {
      members.push_back(nullptr);
    }
  return {{"ranks", ranks},
          {"local_rank", context.local_rank(mode)},
          {"next", context.next(mode)},
          {"prev", context.previous(mode)},
          {"gathered", gathered},
          {"positions", std::move(positions)},
          {"members", std::move(members)},
          {"from_last", broadcast_from(context, mode, ranks.back())},
          {"initial", broadcast_from(context, mode, -1)}};
}

// All are under way at once.
json sums_of(const groups::ParallelContext& context, const std::vector<std::string>& modes) {
  std::vector<std::int64_t> numbers(modes.size(), context.rank() + 1);
  std::vector<comm::Work> works;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const comm::Buffer number{&numbers[i], 1, comm::DType::i64};
    works.push_back(
        context.communicator(modes[i]).start({.operation = comm::Operation::all_reduce, .in = number, .out = number}));
  }
  for (comm::Work& work : works) work.wait();
  json sums = json::object();
  for (std::size_t i = 0; i < modes.size(); ++i) sums[modes[i]] = numbers[i];
  return sums;
}

json created(const Creating& all, comm::Communicator& world) {
  const auto me = static_cast<std::size_t>(world.rank());
  const groups::Plan& plan = all.plans[me];
  json row{{"groups", json::object()}, {"lookups", json::object()}, {"log", json::array()}, {"error", nullptr}};
  const auto begin = std::chrono::steady_clock::now();
  const bool is_disturbed = all.absent || all.failing;  // the group that is lost is a duplicate
  const auto own = is_disturbed ? world.duplicate() : nullptr;
  comm::Communicator& parent = own ? *own : world;
  if (all.absent == world.rank()) {
    world.barrier();
    return row;
  }
  try {
    const groups::ParallelContext context(
        parent, plan, {.timeout = all.limit, .log = [&](const std::string& line) {
                         if (all.failing == world.rank()) throw RuntimeFailure(all.log_error);
                         const json creation = json::parse(line);
                         row["log"].push_back({{"mode", creation.at("mode")}, {"ranks", creation.at("ranks")}});
                       }});
    for (const std::string& mode : context.modes())
      if (context.has(mode)) row["groups"][mode] = used(context, mode);
    for (const std::string& mode : all.lookups) try {
        row["lookups"][mode] = {{"ranks", context.ranks(mode)}};
      } catch (const Error& error) {
        row["lookups"][mode] = {{"error", error_of_rank(error)}};
      }
    if (!all.sums.empty()) row["sums"] = sums_of(context, all.sums[me]);
  } catch (const Error& error) {
    row["error"] = error_of_rank(error);
    row["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  if (is_disturbed) {
    world.barrier();
    return row;
  }
  std::int64_t sum = world.rank() + 1;
  world.all_reduce({&sum, 1, comm::DType::i64}, {&sum, 1, comm::DType::i64}, comm::ReduceOp::sum);
  row["world_sum"] = sum;
  return row;
}

json create(const Arguments& arguments) {
  const auto world = static_cast<int>(arguments.integer_in("world_size", 1, kMostCreatingRanks));
  const Creating all = creating_in(arguments, world);
  arguments.expect_no_others();
  std::vector<json> ranks(static_cast<std::size_t>(world));
  comm::run_ranks(
      world, [&](comm::Communicator& group) { ranks[static_cast<std::size_t>(group.rank())] = created(all, group); });
  return {{"ranks", std::move(ranks)}};
}

}  // namespace

void add_create_operations(AdapterService& service) {
  service.add(
      {"groups.create",
       "creates process groups from the plans of ranks, and uses each",
       {"plumbline"},
       {{"world_size", "integer", "number of ranks, 1 to 16"},
        with_fields(
            {"plans", "list of list of object [plans][creations]",
             "groups in the order in which they are created, at most 256: one plan for all ranks, or one for each"},
            {{"mode", "text", "name of the group's mode; a rank is in at most one group of a mode"},
             {"ranks", "list of integer", "its ranks in group order"}}),
        {"planned_worlds", "list of integer [world_size]",
         "number of ranks that each rank's plan is for; null: world_size", kOptional},
        {"lookups", "list of text", "modes that each rank looks up, whether it has a group of them or not", "[]"},
        where_named({"sums", "list of list of text [world_size]",
                     "modes over whose groups each rank starts a sum of its rank + 1, in this order, before it waits "
                     "for any",
                     kOptional}),
        where_named({"absent", "integer", "rank that does not create its groups; null: none", kOptional}),
        where_named({"failing_log", "integer", "rank whose log callback fails; null: none", kOptional}),
        where_named({"log_error", "text", "of failing_log: what its callback throws; null: any", kOptional}),
        where_named({"limit", "number [s]", "of each wait of a creation, at most 20; null: the system's", kOptional})},
       {{"ranks",
         "list of object [world_size]",
         "what each rank has",
         {{"groups",
           "map of object",
           "its group of each mode, by name",
           {{"*.ranks", "list of integer", "world ranks in group order"},
            {"*.local_rank", "integer", "its position in the group"},
            {"*.next", "integer", "rank after it, cyclically"},
            {"*.prev", "integer", "rank before it, cyclically"},
            {"*.gathered", "list of integer", "what an all-gather of each member's rank gives"},
            {"*.positions", "list of any [world_size]", "position of each world rank in the group; null: no member"},
            {"*.members", "list of any [size + 1]", "world rank at each position, and null for one beyond the end"},
            {"*.from_last", "integer",
             "what a broadcast from the group's last rank gives, each member giving its rank"},
            {"*.initial", "integer", "the same from where initial values come"}}},
          {"lookups",
           "map of object",
           "by mode",
           {{"*.ranks", "list of integer", "the group's"}, {"*.error", "object", "kind and message of the error"}}},
          {"log",
           "list of object",
           "creations that it has processed, in order",
           {{"mode", "text", "the mode"}, {"ranks", "list of integer", "the group's ranks"}}},
          {"sums", "map of integer", "of sums: what each gives, by mode"},
          {"error", "any", "kind and message of the error of the creation, or null"},
          {"seconds", "number [s]", "of error: when it came, from the creation's begin on"},
          {"world_sum", "integer",
           "sum over all ranks of rank + 1, after the creation; not of absent and failing_log"}}}},
       R"({"world_size": 2, "plans": [[{"mode": "data", "ranks": [1, 0]}]]})",
       {{"invalid_argument",
         "plans, planned_worlds or sums has another length than the ranks, a plan has more than 256 groups, a rank is "
         "in "
         "two groups of a mode, absent or failing_log is no rank, or limit is not above 0 and at most 20"}}},
      create);
}

}  // namespace plumbline::adapter
