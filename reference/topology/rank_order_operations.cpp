// topology.rank_generator and topology.hyper_comm_grid: groups along dimensions, from an order of parallelisms.
#include <limits>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/topology/detail/operations.hpp"
#include "reference/topology/rank_generator.hpp"

namespace plumbline::topology::operations {
namespace {

json rank_generator(const Arguments& arguments) {
  const auto rule =
      arguments.convention() == Convention::megatron ? topology::OrderRule::megatron : topology::OrderRule::plumbline;
  const topology::RankGenerator generator(arguments.get<std::map<std::string, int>>("sizes"),
                                          arguments.get<std::string>("order"), arguments.get<int>("rank_offset", 0),
                                          rule);
  const auto tokens = arguments.get<Names>("tokens", generator.topology().axis_names());
  const double ranks = generator.world_size(), most = generator.topology().offset() + ranks;
  double bytes = 0;
  for (const std::string& token : tokens) bytes += bytes_of(ranks, most, generator.groups(token).size());
  expect_short(bytes);
  json groups = json::object();
  for (const std::string& token : tokens) groups[token] = generator.groups(token).lists();
  return {{"normalized_order", generator.order()},
          {"ordered_size", generator.ordered_size()},
          {"world_size", generator.world_size()},
          {"groups", groups}};
}

// The dimensions along which groups are asked for, "a-b"; unless it is said, each name and each pair of them.
std::vector<Names> read_choices(const Arguments& arguments, const Names& names) {
  std::vector<Names> choices;
  if (const auto asked = arguments.find<Names>("dims")) {
    for (const std::string& words : *asked) choices.push_back(topology::split_names(words));
    return choices;
  }
  for (const std::string& name : names) choices.push_back({name});
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = i + 1; j < names.size(); ++j) choices.push_back({names[i], names[j]});
  return choices;
}

// What is asked of the grid itself or of a view.
struct AskedView {
  std::string view;
  std::vector<Names> choices;
};

AskedView read_view(const std::string& view, const Arguments& arguments, topology::HyperCommGrid& grid) {
  const Names names = read_axes(arguments, "dim_names");
  grid.register_view(view, names, arguments.get<Sizes>("shape"), arguments.get<Names>("shared", {}));
  return {view, read_choices(arguments, names)};
}

double bytes_of_groups(const AskedView& asked, const topology::HyperCommGrid& grid) {
  const Topology& topology = grid.topology(asked.view);
  double bytes = 0;
  for (const Names& choice : asked.choices)
    bytes += bytes_of(topology.world_size(), double{1} * topology.offset() + topology.world_size(),
                      grid.groups(choice, asked.view).size());
  return bytes;
}

json groups_of(const AskedView& asked, const topology::HyperCommGrid& grid) {
  json groups = json::object();
  for (const Names& choice : asked.choices)
    groups[fmt::format("{}", fmt::join(choice, "-"))] = grid.groups(choice, asked.view).lists();
  return groups;
}

json owners_of(const AskedView& asked, const topology::HyperCommGrid& grid) {
  json owners = json::object();
  for (const Names& choice : asked.choices)
    owners[fmt::format("{}", fmt::join(choice, "-"))] = grid.owner(choice, asked.view);
  return owners;
}

json hyper_comm_grid(const Arguments& arguments) {
  const Names names = read_axes(arguments, "dim_names");
  topology::HyperCommGrid grid(names, arguments.get<Sizes>("shape"),
                               arguments.get<int>("world_size", std::numeric_limits<int>::max()),
                               arguments.get<int>("rank_offset", 0));
  std::vector<AskedView> asked{{std::string(topology::HyperCommGrid::kBase), read_choices(arguments, names)}};
  expect_short(bytes_of_groups(asked.front(), grid));  // so that views, which are compared with it, are small as well
  for (const auto& [view, fields] : arguments.get<std::map<std::string, Arguments>>("views", {}))
    asked.push_back(read_view(view, fields, grid));
  double bytes = 0;
  for (const AskedView& one : asked) bytes += bytes_of_groups(one, grid);
  expect_short(bytes);
  json result{{"groups", groups_of(asked.front(), grid)}, {"views", json::object()}};
  for (const AskedView& one : asked | std::views::drop(1))
    result["views"][one.view] = {{"groups", groups_of(one, grid)}, {"owners", owners_of(one, grid)}};
  return result;
}

}  // namespace

void add_rank_generator(AdapterService& service) {
  const SharedRows shared;
  service.add(
      {"topology.rank_generator",
       "derives groups from an order of parallelisms",
       Words{"plumbline", "megatron"},
       {with_fields({"sizes", "map of integer", "size by parallelism"},
                    {{"*", "integer", "size of tp, pp, dp, ep, cp or gtp_remat", kOptional}}),
        {"order", "text", "parallelisms joined by -, the fastest-varying first, as tp-cp-ep-dp-pp"},
        shared.offset,
        {"tokens", "list of text", "parallelisms joined by - whose groups are wanted; null: each one", kOptional}},
       {{"normalized_order", "text", "the order with every parallelism"},
        {"ordered_size", "list of integer", "sizes in that order"},
        {"world_size", "integer", "number of ranks"},
        {"groups", "map of list of list of integer", "groups by token"}},
       R"({"sizes": {"tp": 2, "dp": 2}, "order": "tp-dp", "tokens": ["tp", "dp"]})",
       {{"invalid_argument",
         "a size is below 1, an order repeats a name or lacks one of size above 1, or ep and cp both exceed 1"},
        {"not_found", "a token or order names another parallelism"},
        shared.too_long}},
      rank_generator);
}

void add_hyper_comm_grid(AdapterService& service) {
  const SharedRows shared;
  service.add({"topology.hyper_comm_grid",
               "groups along dimensions of a grid and of views of it",
               Words{"plumbline", "megatron"},
               {shared.shape,
                shared.names,
                {"world_size", "integer", "ranks of the world; null: the number that the grid needs", kOptional},
                shared.offset,
                {"dims", "list of text", "dimensions joined by -; null: each dimension and each pair", kOptional},
                with_fields({"views", "map of object", "views by name", kOptional},
                            {{"*.shape", "list of integer", "size of each dimension"},
                             {"*.dim_names", "list of text", "names of its dimensions"},
                             {"*.shared", "list of text", "dimensions that it shares with the grid", kOptional},
                             {"*.dims", "list of text", "as dims, of the view", kOptional}})},
               {{"groups", "map of list of list of integer", "groups by dimensions"},
                {"views",
                 "map of object",
                 "by name",
                 {{"*.groups", "map of list of list of integer", "groups by dimensions"},
                  {"*.owners", "map of text", "by dimensions the view that owns the groups: its name, or base"}}}},
               R"({"shape": [2, 2], "dim_names": ["dp", "tp"], "dims": ["tp", "dp-tp"]})",
               {{"invalid_argument",
                 "shape and dim_names disagree, the grid exceeds world_size, or a view does not share what it names"},
                {"not_found", "a dimension has another name"},
                shared.too_long}},
              hyper_comm_grid);
}

}  // namespace plumbline::topology::operations
