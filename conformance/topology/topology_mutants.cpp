// Adapters whose answers about topologies are wrong, each by a rule of its own.
#include "conformance/topology/topology_mutants.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

using Ranks = std::vector<int>;

// ---- what was asked ----

struct Axes {
  std::vector<std::string> names;
  std::vector<int> sizes;

  [[nodiscard]] int count() const { return static_cast<int>(sizes.size()); }
  [[nodiscard]] int world() const { return std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>()); }
  [[nodiscard]] int find(const std::string& name) const {
    return static_cast<int>(std::ranges::find(names, name) - names.begin());
  }
  [[nodiscard]] int size(const std::string& name) const {
    return find(name) == count() ? 1 : sizes[static_cast<std::size_t>(find(name))];
  }
  // How far apart neighbours on an axis are.
  [[nodiscard]] int stride(int axis, bool first_fastest = false) const {
    int stride = 1;
    for (int other = 0; other < count(); ++other)
      if (first_fastest ? other < axis : other > axis) stride *= sizes[static_cast<std::size_t>(other)];
    return stride;
  }
  [[nodiscard]] int position(int rank, int axis, bool first_fastest = false) const {
    return rank / stride(axis, first_fastest) % sizes[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] int position(int rank, const std::string& name) const {
    return find(name) == count() ? 0 : position(rank, find(name));
  }
  [[nodiscard]] json coordinate(int rank, bool first_fastest = false) const {
    json coordinate = json::array();
    for (int axis = 0; axis < count(); ++axis) coordinate.push_back(position(rank, axis, first_fastest));
    return coordinate;
  }
};

Axes axes_of(const json& args, const char* names = "axes", const char* sizes = "dims") {
  Axes axes;
  for (const json& name : args.at(names)) axes.names.push_back(name);
  for (const json& size : args.at(sizes)) axes.sizes.push_back(size);
  return axes;
}

bool is_of_deepspeed(const json& args) { return args.value("convention", "plumbline") == "deepspeed"; }

json refusal(const char* kind, const std::string& message) {
  return {{"error", {{"kind", kind}, {"message", message}}}};
}

// ---- kinds of rewriting ----

/// Changes the results of one operation of each rank: fields "ranks".
RewriteAnswer each_rank_of_grid(std::function<void(const Axes& axes, int rank, json& told)> change) {
  return results_of("topology.grid", [change = std::move(change)](const json& args, json& result) {
    if (args.at("axes").is_null()) return;
    for (std::size_t rank = 0; rank < result["ranks"].size(); ++rank)
      change(axes_of(args), static_cast<int>(rank), result["ranks"][rank]);
  });
}

/// Changes the groups along each axis: process_topology's.
RewriteAnswer groups_of_axes(std::function<void(const Axes& axes, int axis, json& groups)> change) {
  return results_of("topology.process_topology", [change = std::move(change)](const json& args, json& result) {
    const Axes axes = axes_of(args);
    for (int axis = 0; axis < axes.count(); ++axis)
      change(axes, axis, result["axis_comm_lists"][axes.names[static_cast<std::size_t>(axis)]]);
  });
}

/// Changes the error of a refused question.
RewriteAnswer errors_of(const char* asked, std::function<bool(const json& args)> concerns, const char* field,
                        const char* words) {
  return [=, asked = std::string(asked), concerns = std::move(concerns)](const std::string& op, const json& args,
                                                                         json reply) {
    if (op == asked && reply.contains("error") && concerns(args)) reply["error"][field] = words;
    return reply;
  };
}

bool is_call(const json& args, const char* call) { return args.value("call", "") == call; }
bool is_partial(const json& args) {
  return is_call(args, "get_rank") && args.at("kwargs").size() < args.at("axes").size();
}

// ---- coordinates ----

// rank = sum of position x stride, with strides that leave out the size of one axis.
void drop_dp_stride(const json& args, json& result) {
  Axes axes = axes_of(args);
  const Axes right = axes;
  if (const int data = axes.find("data"); data < axes.count()) axes.sizes[static_cast<std::size_t>(data)] = 1;
  for (int rank = 0; rank < right.world(); ++rank) {
    int wrong = 0;
    for (int axis = 0; axis < axes.count(); ++axis) wrong += right.position(rank, axis) * axes.stride(axis);
    result["rank_of_coord"][static_cast<std::size_t>(rank)] = wrong;
  }
}

void column_major(const json& args, json& result) {
  const Axes axes = axes_of(args);
  for (int rank = 0; rank < axes.world(); ++rank)
    result["coords"][static_cast<std::size_t>(rank)] = axes.coordinate(rank, true);
}

void axis_order_swapped(const json&, json& result) {
  for (json& coordinate : result["coords"]) std::reverse(coordinate.begin(), coordinate.end());
}

void question_column_major(const json& args, json& result) {
  const Axes axes = axes_of(args);
  if (is_call(args, "get_coord")) result["result"] = axes.coordinate(args["kwargs"]["rank"], true);
  if (!is_call(args, "get_rank")) return;
  int rank = 0;
  for (int axis = 0; axis < axes.count(); ++axis)
    rank += args["kwargs"].at(axes.names[static_cast<std::size_t>(axis)]).get<int>() * axes.stride(axis, true);
  result["result"] = rank;
}

void size_of_the_next(const json& args, json& result) {
  const Axes axes = axes_of(args);
  for (std::size_t axis = 0; axis < axes.names.size(); ++axis)
    result["get_dim"][axes.names[axis]] = axes.sizes[(axis + 1) % axes.sizes.size()];
}

// ---- groups and lists ----

void groups_are_blocks(const Axes&, int, json& groups) {
  int next = 0;
  for (json& group : groups)
    for (json& rank : group) rank = next++;
}

// By the positions on the other axes, the last of those slowest.
void groups_by_the_last_axis(const Axes& axes, int along, json& groups) {
  std::stable_sort(groups.begin(), groups.end(), [&](const json& a, const json& b) {
    for (int axis = axes.count() - 1; axis >= 0; --axis) {
      if (axis == along) continue;
      const int left = axes.position(a[0], axis), right = axes.position(b[0], axis);
      if (left != right) return left < right;
    }
    return false;
  });
}

void filter_ignores_an_axis(const json& args, json& result) {
  const Axes axes = axes_of(args);
  for (json& one : result["filter_match"]) {
    if (one["filter"].size() < 2) continue;
    json filter = one["filter"];
    filter.erase(filter.begin());
    one["ranks"] = json::array();
    for (int rank = 0; rank < axes.world(); ++rank)
      if (std::ranges::all_of(filter.items(), [&](const auto& wanted) {
            return axes.position(rank, wanted.key()) == wanted.value().template get<int>();
          }))
        one["ranks"].push_back(rank);
  }
}

// ---- names ----

/// Names of ranks with positions written by `digits`, and axes left out as `omits` says.
RewriteAnswer names_with(std::function<std::string(int position)> digits, json omitted_by_default) {
  return results_of("topology.process_topology", [=](const json& args, json& result) {
    const Axes axes = axes_of(args);
    const auto text = [](const json& field, const char* otherwise) {
      return field.is_null() ? std::string(otherwise) : field.get<std::string>();
    };
    for (json& one : result["rank_repr"]) {
      const json omitted = one["omit_axes"].is_null() ? omitted_by_default : one["omit_axes"];
      std::string name;
      for (int axis = 0; axis < axes.count(); ++axis) {
        const std::string& word = axes.names[static_cast<std::size_t>(axis)];
        if (std::ranges::count(omitted, json(word)) > 0) continue;
        name += (name.empty() ? "" : text(one["outer_sep"], "-")) + word + text(one["inner_sep"], "_") +
                digits(axes.position(one["rank"], axis));
      }
      one["repr"] = name;
    }
  });
}

// ---- grids ----

std::vector<int> dealt(int world, const std::function<bool(std::size_t index)>& to_pipe) {
  std::vector<int> sizes{1, 1};
  std::size_t index = 0;
  for (int candidate = 2; world > 1; ++candidate)
    for (; world % candidate == 0; world /= candidate) sizes[to_pipe(index++) ? 0 : 1] *= candidate;
  return sizes;
}

RewriteAnswer default_grid(std::function<bool(std::size_t index)> to_pipe) {
  return results_of("topology.grid", [to_pipe = std::move(to_pipe)](const json& args, json& result) {
    if (!args.at("axes").is_null()) return;
    const std::vector<int> sizes = dealt(args.at("world_size"), to_pipe);
    result["pipe_parallel_size"] = sizes[0];
    result["data_parallel_size"] = sizes[1];
  });
}

void no_wraparound(const json& args, json& result) {
  if (args.at("axes").is_null()) return;
  const Axes axes = axes_of(args);
  if (axes.size("pipe") == 1) return;
  json pairs = json::array();
  for (const json& pair : result["p2p_groups"])
    if (axes.position(pair[0], "pipe") + 1 < axes.size("pipe")) pairs.push_back(pair);
  result["p2p_groups"] = pairs;
}

void data_groups_by_another_axis(const json& args, json& result) {
  if (args.at("axes").is_null()) return;
  const Axes axes = axes_of(args);
  json& calls = result["new_group_calls"];
  const int models = axes.size("data"), groups = axes.world() / axes.size("data");
  json data(calls.begin() + models, calls.begin() + models + groups);
  groups_by_the_last_axis(axes, axes.find("data"), data);
  std::ranges::copy(data, calls.begin() + models);
}

// The first group that holds rank 0, for all.
void handle_of_the_first_group(const Axes& axes, int, json& told) {
  told["group_handles"]["get_data_parallel_group"] = axes.size("data");
}

void no_slice_when_one(const Axes& axes, int, json& told) {
  if (axes.size("model") == 1) told["slice_group"] = nullptr;
}

void last_rank_of_first_pipeline(const Axes& axes, int, json& told) {
  for (std::size_t stage = 0; stage < told["stage_to_global"].size(); ++stage)
    told["stage_to_global"][stage] = static_cast<int>(stage) * axes.stride(axes.find("pipe"));
}

void override_ignored(const Axes& axes, int rank, json& told) {
  const int stride = axes.stride(axes.find("pipe"));
  const int first = rank - axes.position(rank, "pipe") * stride;
  for (json& one : told["stage_to_global_overrides"]) one["rank"] = first + one["stage_id"].get<int>() * stride;
}

// ---- orders ----

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

Axes axes_in_order(const json& args) {
  Axes axes;
  for (const std::string& name : split(args.at("order"))) {
    axes.names.push_back(name);
    axes.sizes.push_back(args.at("sizes").value(name, 1));
  }
  return axes;
}

using Regroup = std::function<json(const Axes& axes, const std::vector<std::string>& tokens, json groups)>;

RewriteAnswer groups_of_tokens(Regroup regroup) {
  return results_of("topology.rank_generator", [regroup = std::move(regroup)](const json& args, json& result) {
    for (auto& [tokens, groups] : result["groups"].items())
      groups = regroup(axes_in_order(args), split(tokens), groups);
  });
}

// Ranks that agree on all other axes, read row-major.
json first_name_slowest(const Axes& axes, const std::vector<std::string>& tokens, const json&) {
  json groups = json::array();
  std::map<std::vector<int>, std::size_t> known;
  for (int rank = 0; rank < axes.world(); ++rank) {
    std::vector<int> others;
    for (int axis = 0; axis < axes.count(); ++axis)
      others.push_back(
          std::ranges::count(tokens, axes.names[static_cast<std::size_t>(axis)]) > 0 ? 0 : axes.position(rank, axis));
    const auto [place, is_new] = known.emplace(others, groups.size());
    if (is_new) groups.push_back(json::array());
    groups[place->second].push_back(rank);
  }
  return groups;
}

// Inside a group the first token asked for is the fastest, whatever the order of axes.
json merged_in_given_order(const Axes& axes, const std::vector<std::string>& tokens, json groups) {
  const auto place = [&](int rank) {
    std::vector<int> positions;
    for (auto token = tokens.rbegin(); token != tokens.rend(); ++token)
      if (const int axis = axes.find(*token); axis < axes.count()) positions.push_back(axes.position(rank, axis, true));
    return positions;
  };
  for (json& group : groups)
    std::stable_sort(group.begin(), group.end(), [&](const json& a, const json& b) { return place(a) < place(b); });
  return groups;
}

json experts_ignored(const Axes& axes, const std::vector<std::string>& tokens, json groups) {
  if (std::ranges::count(tokens, "ep") == 0 || axes.size("ep") == 1) return groups;
  std::vector<json> alone;
  for (int rank = 0; rank < axes.world(); ++rank) alone.push_back(json::array({rank}));
  return alone;
}

void lower(json& groups, int by) {
  for (json& group : groups)
    for (json& rank : group) rank = rank.get<int>() - by;
}

void span_last_fastest(const json& args, json& result) {
  const Axes axes = axes_of(args, "dim_names", "shape");
  for (auto& [tokens, groups] : result["groups"].items()) {
    groups = first_name_slowest(axes, split(tokens), groups);
    lower(groups, -args.value("rank_offset", 0));
  }
}

// Unshared axes are made one with all others.
void groups_of_view_are_whole(const json&, json& result) {
  for (json& view : result["views"])
    for (auto& [tokens, groups] : view["groups"].items()) {
      if (view["owners"][tokens] == "base") continue;
      json whole = json::array();
      for (const json& group : groups) whole.insert(whole.end(), group.begin(), group.end());
      std::sort(whole.begin(), whole.end());
      groups = json::array({whole});
    }
}

void no_offset(const json& args, json& result) {
  for (auto& [tokens, groups] : result["groups"].items()) lower(groups, args.value("rank_offset", 0));
}

// Every stage of a pipeline holds the embedding.
void embedding_on_every_stage(const json&, json& result) {
  json pipeline;
  for (json& call : result["new_group_calls"]) {
    if (call[0] == "PIPELINE_MODEL_PARALLEL_GROUP") pipeline = call[1];
    if (call[0] == "EMBEDDING_GROUP") call[1] = pipeline;
  }
}

void experts_are_one_group(const json& args, json& result) {
  Ranks whole(args.at("world_size").get<std::size_t>());
  std::iota(whole.begin(), whole.end(), 0);
  for (json& call : result["new_group_calls"])
    if (call[0] == "EXPERT_MODEL_PARALLEL_GROUP") call[1] = whole;
}

void no_stage_after_the_last(const json&, json& result) {
  for (json& told : result["ranks"])
    if (told["is_pipeline_last_stage"] == true) told["get_pipeline_model_parallel_next_rank"] = told["rank"];
}

void groups_made_by_name(const json& args, json& result) {
  if (args.value("convention", "") != "megatron") return;
  json& calls = result["new_group_calls"];
  std::stable_sort(calls.begin(), calls.end(), [](const json& a, const json& b) { return a[0] < b[0]; });
}

// ---- meshes ----

// The numbers in nested lists, in their order.
void visit_numbers(json& part, const std::function<void(json& number)>& visit) {
  if (!part.is_array()) return visit(part);
  for (json& inner : part) visit_numbers(inner, visit);
}

// The numbers of the first dimension beside each other.
void mesh_transposed(const json&, json& result) {
  json& mesh = result["mesh"];
  std::vector<json> ranks;
  visit_numbers(mesh, [&](json& rank) { ranks.push_back(rank); });
  if (!mesh[0].is_array()) return;
  const std::size_t rows = mesh.size(), columns = ranks.size() / rows;
  std::size_t next = 0;
  visit_numbers(mesh, [&](json& rank) {
    rank = ranks[next % rows * columns + next / rows];
    ++next;
  });
}

void local_rank_is_global(const json&, json& result) {
  for (json& one : result["ranks"])
    for (auto& [dimension, local] : one["local_rank"].items())
      if (one["local_rank"].size() > 1) local = one["rank"];
}

void slice_of_rank_zero(const json&, json& result) {
  for (json& one : result["ranks"]) one["slices"] = result["ranks"][0]["slices"];
}

void flattened_first_fastest(const json& args, json& result) {
  const Axes axes = axes_of(args, "dim_names", "shape");
  for (json& one : result["ranks"])
    for (auto& [names, ranks] : one["flatten"].items()) {
      const auto place = [&](int rank) {
        std::vector<int> positions;
        for (int axis = axes.count() - 1; axis >= 0; --axis) positions.push_back(axes.position(rank, axis));
        return positions;
      };
      std::stable_sort(ranks.begin(), ranks.end(), [&](const json& a, const json& b) { return place(a) < place(b); });
    }
}

bool is_out_of_order(const json& args) {
  const Axes axes = axes_of(args, "dim_names", "shape");
  for (const json& slice : args.at("slices")) {
    const auto names = split(slice);
    if (std::ranges::any_of(names, [&](const std::string& name) { return axes.find(name) == axes.count(); }))
      return false;
    if (!std::ranges::is_sorted(names, {}, [&](const std::string& name) { return axes.find(name); })) return true;
  }
  return false;
}

// ---- nodes ----

// Visits the groups along each axis, row-major.
void visit_groups(const Axes& axes, const std::function<void(const std::string& axis, const Ranks& group)>& visit) {
  for (int axis = 0; axis < axes.count(); ++axis)
    for (int rank = 0; rank < axes.world(); ++rank) {
      if (axes.position(rank, axis) != 0) continue;
      Ranks group;
      for (int i = 0; i < axes.sizes[static_cast<std::size_t>(axis)]; ++i)
        group.push_back(rank + i * axes.stride(axis));
      visit(axes.names[static_cast<std::size_t>(axis)], group);
    }
}

void node_border_off_by_one(const json& args, json& result) {
  if (args.at("ranks_per_node").is_array()) return;
  const int node = args.at("ranks_per_node");
  for (auto& [axis, count] : result["crossing_groups"].items()) count = 0;
  visit_groups(axes_of(args), [&](const std::string& axis, const Ranks& group) {
    const auto is_elsewhere = [&](int rank) { return (rank + 1) / node != (group[0] + 1) / node; };
    json& count = result["crossing_groups"][axis];
    if (std::ranges::any_of(group, is_elsewhere)) count = count.get<int>() + 1;
  });
}

void ring_not_closed(const json& args, json& result) {
  if (args.at("ranks_per_node").is_array()) return;
  const int node = args.at("ranks_per_node");
  visit_groups(axes_of(args), [&](const std::string& axis, const Ranks& group) {
    if (group.front() / node == group.back() / node) return;
    json& bytes = result["crossing_bytes"][axis];
    bytes = bytes.get<std::int64_t>() - args.at("bytes").value(axis, std::int64_t{0});
  });
}

// Every node takes as many ranks as the first.
void first_node_of_all(const json& args, json& result) {
  if (!args.at("ranks_per_node").is_array()) return;
  const int node = args["ranks_per_node"].at(0);
  for (auto& [axis, count] : result["crossing_groups"].items()) count = 0;
  visit_groups(axes_of(args), [&](const std::string& axis, const Ranks& group) {
    json& count = result["crossing_groups"][axis];
    if (group.front() / node != group.back() / node) count = count.get<int>() + 1;
  });
}

void bytes_of_32_bits(const json&, json& result) {
  for (json& bytes : result["crossing_bytes"]) bytes = bytes.get<std::int64_t>() % (std::int64_t{1} << 32);
}

// The bytes of one order of a placement's axes that cross nodes.
std::int64_t total_in(const std::vector<std::string>& order, const json& args) {
  const Axes given = axes_of(args);
  Axes axes{.names = order, .sizes = {}};
  for (const std::string& name : order) axes.sizes.push_back(given.size(name));
  const int node = args.at("ranks_per_node");
  std::int64_t total = 0;
  visit_groups(axes, [&](const std::string& axis, const Ranks& group) {
    for (std::size_t i = 0; i < group.size(); ++i)
      if (group[i] / node != group[(i + 1) % group.size()] / node)
        total += args.at("bytes").value(axis, std::int64_t{0});
  });
  return total;
}

// The axis of the most bytes last, as is usual; where this is no better than the order given, that.
void best_order_by_bytes(const json& args, json& result) {
  if (args.at("ranks_per_node").is_array()) return;
  auto order = args.at("axes").get<std::vector<std::string>>();
  std::ranges::stable_sort(order, {},
                           [&](const std::string& axis) { return args.at("bytes").value(axis, std::int64_t{0}); });
  const std::int64_t total = total_in(order, args);
  const bool is_better = total < result["total"].get<std::int64_t>();
  result["best_order"] = is_better ? json(order) : args.at("axes");
  result["best_total"] = is_better ? json(total) : result["total"];
}

void best_order_is_the_given(const json& args, json& result) {
  result["best_order"] = args.at("axes");
  result["best_total"] = result["total"];
}

// ---- the table ----

std::vector<Mutant> map_mutants() {
  const char* const map = "topology.process_topology";
  return {
      {"top.drop_dp_stride", "TOPO-001",
       "the rank of a coordinate is reckoned with strides that leave out the size of data", "TOP-10",
       "topology.map.bijection[shape=3x2]", "topology.map.bijection[shape=5]", "there is no axis data",
       results_of(map, drop_dp_stride)},
      {"top.column_major", "TOPO-002", "the first axis varies fastest", "Fortran's order, and Megatron-LM's",
       "topology.map.row_major[shape=3x2]", "topology.map.row_major[shape=5]", "one axis has one order",
       results_of(map, column_major)},
      {"top.axis_order_swapped", "TOPO-002", "coordinates are told in the opposite order of the axes",
       "axes are named from the fastest in some frameworks", "topology.map.row_major[shape=3x2]",
       "topology.map.row_major[shape=5]", "one axis has one order", results_of(map, axis_order_swapped)},
      {"top.question_column_major", "TOPO-003", "single questions are answered with the first axis fastest",
       "TOP-10: two formulas for one map", "topology.map.single_questions[shape=3x2]",
       "topology.map.single_questions[shape=5]", "one axis has one order",
       results_of("topology.query", question_column_major)},
      {"top.question_without_the_last", "TOPO-003", "single questions for ranks along an axis leave out the last group",
       "a loop that ends too early", "topology.map.single_questions[shape=3x2]", "", "every axis has a last group",
       results_of("topology.query",
                  [](const json& args, json& result) {
                    if (is_call(args, "get_axis_comm_lists") && !is_of_deepspeed(args))
                      result["result"].erase(result["result"].size() - 1);
                  })},
      {"top.rank_in_24_bits", "TOPO-056", "ranks go through a number of 24 bits", "a float in between",
       "topology.map.large_worlds[ranks=31_bits]", "topology.map.large_worlds[ranks=20_bits]",
       "they have 24 bits at most",
       results_of("topology.query",
                  [](const json& args, json& result) {
                    if (is_call(args, "get_rank")) result["result"] = result["result"].get<int>() % (1 << 24);
                  })},
      {"top.three_axes_of_deepspeed", "TOPO-057", "under the convention deepspeed, the fourth axis has no groups",
       "written for pipe, data and model", "topology.deepspeed.map[shape=2x3x4x5]",
       "topology.deepspeed.map[shape=2x3x1]", "there are three axes",
       results_of(map,
                  [](const json& args, json& result) {
                    if (!is_of_deepspeed(args) || args.at("axes").size() < 4) return;
                    result["axis_comm_lists"][args.at("axes").at(3).get<std::string>()] = json::array();
                  })},
      {"top.size_of_the_next", "TOPO-004", "the size of an axis is that of the axis after it", "an index off by one",
       "topology.map.sizes[shape=3x2]", "topology.map.sizes[shape=5]", "the axis after the only one is the same",
       results_of(map, size_of_the_next)},
      {"top.last_group_missing", "TOPO-005", "the last group along each axis is not there",
       "a loop that ends too early", "topology.groups.partition[shape=3x2]", "", "every axis has a last group",
       groups_of_axes([](const Axes&, int, json& groups) { groups.erase(groups.size() - 1); })},
      {"top.groups_are_blocks", "TOPO-006", "groups of all axes are runs of consecutive ranks",
       "right for the fastest axis, and copied", "topology.groups.meet_once[shape=3x2]",
       "topology.groups.meet_once[shape=5]", "one axis meets no other", groups_of_axes(groups_are_blocks)},
      {"top.groups_by_the_last_axis", "TOPO-007",
       "groups come by the positions on the other axes, the last of those slowest",
       "groups must be made in one order on all ranks", "topology.groups.order[shape=2x3x4x5]",
       "topology.groups.order[shape=3x2]", "there is one other axis", groups_of_axes(groups_by_the_last_axis)},
      {"top.group_descends", "TOPO-007", "in a group, positions descend", "a group's order is its ranks' numbers in it",
       "topology.groups.order[shape=5]", "", "every shape has a group of two ranks",
       groups_of_axes([](const Axes&, int, json& groups) {
         for (json& group : groups) std::reverse(group.begin(), group.end());
       })},
      {"top.position_off_by_one", "TOPO-008", "the ranks at a position are those at the one after it",
       "an index off by one", "topology.lists.of_a_position[shape=3x2]", "", "every shape has an axis of two positions",
       results_of(map,
                  [](const json&, json& result) {
                    for (auto& [axis, lists] : result["axis_list"].items())
                      std::rotate(lists.begin(), lists.begin() + 1, lists.end());
                  })},
      {"top.filter_ignores_an_axis", "TOPO-009", "of a filter on several axes, one is not looked at",
       "a filter written for one axis", "topology.lists.of_a_filter[shape=2x3x4x5]",
       "topology.lists.of_a_filter[shape=3x2]", "filters there are on one axis at most",
       results_of(map, filter_ignores_an_axis)},
      {"top.one_digit", "TOPO-010", "positions are written without a leading zero",
       "checkpoints are found by these names", "topology.names.any_style[shape=3x2]", "",
       "every shape has a position below ten",
       names_with([](int position) { return std::to_string(position); }, {"data", "pipe"})},
      {"top.two_digits_at_most", "TOPO-010", "of a position, the last two digits are written",
       "ranks 0 and 100 write one checkpoint", "topology.names.any_style[shape=1x101]",
       "topology.names.any_style[shape=3x2]", "all positions are below 100",
       names_with([](int position) { return fmt::format("{:02}", position % 100); }, {"data", "pipe"})},
      {"top.pipe_and_data_named", "TOPO-011", "no axis is left out of a name unless it is asked for",
       "checkpoints are found by these names", "topology.names.default_style[shape=3x2]", "",
       "pipe is an axis of every shape of its own",
       names_with([](int position) { return fmt::format("{:02}", position); }, json::array())},
  };
}

std::vector<Mutant> refusal_mutants() {
  const auto world = [](const char* fault) { return fmt::format("topology.refusals.worlds[fault={}]", fault); };
  const auto holds_a_zero = [](const json& args) { return std::ranges::count(args.at("dims"), json(0)) > 0; };
  return {
      {"top.missing_axes_at_zero", "TOPO-012", "axes that a coordinate leaves out are taken at position 0",
       "a default where there should be none", "topology.refusals.partial_coordinates[given=all_but_one]", "",
       "every case leaves out an axis", takes("topology.query", is_partial, {{"result", 0}})},
      {"top.missing_axes_unnamed", "TOPO-012", "a partial coordinate is refused without a word of the missing axes",
       "TOP-09: the message of the source", "topology.refusals.partial_coordinates[given=one]", "",
       "every case leaves out an axis",
       errors_of("topology.query", is_partial, "message", "get_rank() does not support slices")},
      {"top.bad_error_path", "TOPO-013", "a coordinate that is not there makes the error message fail", "TOP-09",
       "topology.refusals.places[fault=position_past_the_last]", "topology.refusals.places[fault=rank_past_the_last]",
       "that is another message",
       errors_of(
           "topology.query", [](const json& args) { return is_call(args, "get_rank"); }, "kind", "failed")},
      {"top.list_past_the_end_is_empty", "TOPO-013", "no ranks are at a position that is not there", "REF-01",
       "topology.refusals.places[fault=list_past_the_end]", "topology.refusals.places[fault=filter_past_the_end]",
       "that is another question",
       takes("topology.query",
             [](const json& args) {
               return is_call(args, "get_axis_list") &&
                      std::ranges::count(args.at("axes"), args.at("kwargs").at("axis")) > 0;
             },
             {{"result", json::array()}})},
      {"top.rank_not_told", "TOPO-014", "a rank that is not there is refused without its number", "TOP-09",
       "topology.refusals.places_told[fault=rank_past_the_last]", "topology.refusals.places_told[fault=other_axis]",
       "that is another message",
       errors_of(
           "topology.query", [](const json& args) { return is_call(args, "get_coord"); }, "message",
           "the rank is not in the topology")},
      {"top.no_axes_taken", "TOPO-015", "no axes make a world of one rank",
       "DeepSpeed, where the product of nothing is one", world("no_axes"), world("empty_name"), "there is an axis",
       takes("topology.process_topology", [](const json& args) { return args.at("axes").empty(); })},
      {"top.zero_size_taken", "TOPO-015", "an axis of size 0 makes an empty world",
       "DeepSpeed, where nothing looks at sizes", world("size_zero"), world("negative_size"), "no size is 0",
       takes("topology.process_topology", holds_a_zero)},
      {"top.repeated_axis_taken", "TOPO-015", "an axis that is named twice is taken", "names are kept as keys",
       world("axis_twice"), world("size_zero"), "no axis is named twice",
       takes("topology.process_topology",
             [](const json& args) {
               return std::ranges::any_of(args.at("axes"), [&](const json& name) {
                 return name != "" && std::ranges::count(args["axes"], name) > 1;
               });
             })},
      {"top.overflow_wraps", "TOPO-015", "the product of the sizes wraps around", "sizes are multiplied as 32 bits",
       world("product_overflow"), world("axis_twice"), "the product is small",
       takes("topology.process_topology",
             [](const json& args) { return std::ranges::count(args.at("dims"), json(65536)) > 0; })},
      {"top.invalid_grid_taken", "TOPO-015", "a grid of fewer ranks than the world is taken",
       "the ranks beyond it are in no group, and wait", world("grid_of_fewer"), world("grid_of_more"),
       "the grid has more",
       takes("topology.grid",
             [](const json& args) {
               return !args.at("axes").is_null() && axes_of(args).world() < args.at("world_size").get<int>();
             })},
      {"top.unordered_axis_taken", "TOPO-015", "an order may leave out an axis of several ranks",
       "Megatron-LM appends what is missing, where its size is 1", world("order_without_an_axis"),
       world("order_with_no_axis"), "no axis is left out",
       takes("topology.rank_generator",
             [](const json& args) {
               return args.at("order").get<std::string>().find("tp") == std::string::npos &&
                      args.value("convention", "") != "megatron";
             })},
      {"top.span_wraps", "TOPO-015", "the size of a span is a product of 32 bits, and taken where it is positive",
       "sizes are multiplied as 32 bits", world("wraps_small_of_span"), world("wraps_negative_of_span"),
       "the product comes out negative",
       takes("topology.hyper_comm_grid", [](const json& args) { return args.at("shape") == json{65536, 65537}; })},
      {"top.undivided_run_taken", "TOPO-015", "the ranks that a run's sizes leave over are forgotten",
       "a division without a look at the remainder", world("run_not_divisible"), world("empty_run"),
       "there are no ranks",
       takes("topology.initialize_model_parallel", [](const json& args) { return args.at("world_size") == 18; })},
      {"top.invalid_grid_untold", "TOPO-016", "a grid that is not the world's size is refused as 'Invalid Grid'",
       "the message of the source", "topology.refusals.worlds_told[fault=grid_of_fewer]",
       "topology.refusals.worlds_told[fault=size_zero]", "that is no grid",
       errors_of(
           "topology.grid", [](const json&) { return true; }, "message", "Invalid Grid")},
      {"top.unknown_axis_is_empty", "TOPO-017", "an axis that is not there has no groups", "REF-01",
       "topology.refusals.unknown_axis[call=get_axis_comm_lists]", "topology.refusals.unknown_axis[call=get_dim]",
       "another question",
       takes("topology.query", [](const json& args) { return is_call(args, "get_axis_comm_lists"); },
             {{"result", json::array()}})},
      {"top.unknown_axis_raises", "TOPO-018", "an axis that is not there is refused under the convention deepspeed",
       "REF-01", "topology.deepspeed.unknown_axis[call=get_dim]",
       "topology.deepspeed.unknown_axis[call=get_axis_comm_lists]", "another question",
       RewriteAnswer([](const std::string& op, const json& args, json reply) {
         const bool asked = op == "topology.query" && is_of_deepspeed(args) && is_call(args, "get_dim");
         return asked && reply.value("result", json()).value("result", json()) == 0
                    ? refusal("not_found", "no such axis")
                    : reply;
       })},
  };
}

std::vector<Mutant> grid_mutants() {
  const char* const grid = "topology.grid";
  return {
      {"top.factors_give_up", "TOPO-019", "numbers above ten are tried as factors no more", "a short table of primes",
       "topology.grid.prime_factors[from=97]", "topology.grid.prime_factors[from=1]",
       "below 33 no two factors are above ten",
       results_of("topology.prime_factors",
                  [](const json&, json& result) {
                    json factors = json::array();
                    int rest = 1;
                    for (const json& factor : result["factors"])
                      if (factor < 11)
                        factors.push_back(factor);
                      else
                        rest *= factor.get<int>();
                    if (rest > 1) factors.push_back(rest);
                    result["factors"] = factors;
                  })},
      {"top.default_grid_data_first", "TOPO-020", "the first prime factor goes to data", "REF-02",
       "topology.grid.default[from=1]", "", "every case has a prime number of ranks",
       default_grid([](std::size_t index) { return index % 2 == 1; })},
      {"top.default_grid_not_alternating", "TOPO-020", "all prime factors but the second go to pipe", "REF-02",
       "topology.grid.default[from=9]", "topology.grid.default[from=1]",
       "the first world with a third factor for data is 16",
       default_grid([](std::size_t index) { return index != 1; })},
      {"top.square_is_prime", "TOPO-059", "a number whose factors are all large is taken for a prime",
       "candidates end before the root", "topology.grid.large_factors[n=2147117569]",
       "topology.grid.large_factors[n=65521]", "it is a prime",
       results_of("topology.prime_factors",
                  [](const json& args, json& result) {
                    if (!result["factors"].empty() && result["factors"][0] > 1000)
                      result["factors"] = json::array({args.at("n")});
                  })},
      {"top.model_size_of_all_stages", "TOPO-058", "the model size is the product of stages and slices",
       "two meanings of one word", "topology.grid.sizes[shape=3x2]", "topology.grid.sizes[shape=1x4]",
       "there is one stage",
       results_of(grid,
                  [](const json&, json& result) {
                    result["model_parallel_size"] =
                        result["pipe_parallel_size"].get<int>() * result["slice_parallel_size"].get<int>();
                  })},
      {"top.stage_of_deepspeed_by_remainder", "TOPO-060",
       "under the convention deepspeed, the stage is the remainder of the rank", "right where pipe is the fastest axis",
       "topology.deepspeed.grid[shape=3x2]", "topology.deepspeed.grid[shape=4x1]", "pipe is the fastest axis",
       results_of(grid,
                  [](const json& args, json& result) {
                    if (!is_of_deepspeed(args)) return;
                    const int stages = result["pipe_parallel_size"];
                    for (json& told : result["ranks"]) told["get_stage_id"] = told["rank"].get<int>() % stages;
                  })},
      {"top.off_by_one_stage", "TOPO-021", "stages count from 1", "as people do", "topology.grid.stages[shape=3x2]", "",
       "every rank has a stage", each_rank_of_grid([](const Axes& axes, int rank, json& told) {
         told["get_stage_id"] = axes.position(rank, "pipe") + 1;
       })},
      {"top.stage_of_the_slowest_axis", "TOPO-021", "the stage is the rank divided by the ranks of a stage",
       "right where pipe is the first axis", "topology.grid.stages[shape=random]", "topology.grid.stages[shape=3x2]",
       "pipe is the first axis", each_rank_of_grid([](const Axes& axes, int rank, json& told) {
         told["get_stage_id"] = rank / (axes.world() / axes.size("pipe"));
       })},
      {"top.every_stage_last", "TOPO-022", "every stage takes itself for the last", "TOP-06",
       "topology.grid.ends[shape=4x1]", "topology.grid.ends[shape=1x4]", "the only stage is the last",
       each_rank_of_grid([](const Axes&, int, json& told) { told["is_last_stage"] = true; })},
      {"top.no_last_stage", "TOPO-022", "the last stage is sought at the number of stages", "an index off by one",
       "topology.grid.ends[shape=1x4]", "", "every pipeline has an end",
       each_rank_of_grid([](const Axes&, int, json& told) { told["is_last_stage"] = false; })},
      {"top.no_wraparound", "TOPO-023", "the last stage is paired with none", "REF-03",
       "topology.grid.pairs[shape=3x2]", "topology.grid.pairs[shape=1x4]",
       "a rank alone in its pipeline is its own neighbour", results_of(grid, no_wraparound)},
      {"top.data_groups_by_another_axis", "TOPO-024", "data groups are made by the last of the other axes first",
       "GRP-01: groups must be made in one order on all ranks", "topology.grid.creation_order[shape=2x2x3]",
       "topology.grid.creation_order[shape=3x2]", "there is one other axis",
       results_of(grid, data_groups_by_another_axis)},
      {"top.handle_of_the_first_group", "TOPO-025", "the data group of every rank is the first", "GRP-01",
       "topology.grid.handles[shape=3x2]", "topology.grid.handles[shape=1x4]", "there is one data group",
       each_rank_of_grid(handle_of_the_first_group)},
      {"top.data_id_by_remainder", "TOPO-026", "the data-parallel id is the remainder of the rank",
       "right where data is the fastest axis", "topology.grid.data_parallel[shape=2x2x3]",
       "topology.grid.data_parallel[shape=3x2]", "data is the fastest axis",
       each_rank_of_grid(
           [](const Axes& axes, int rank, json& told) { told["get_data_parallel_id"] = rank % axes.size("data"); })},
      {"top.no_slice_when_one", "TOPO-027", "there is no slice group where axis model has one position", "TOP-08",
       "topology.grid.slices[shape=2x3x1]", "topology.grid.slices[shape=2x2x3]", "axis model has three positions",
       each_rank_of_grid(no_slice_when_one)},
      {"top.model_rank_is_slice_rank", "TOPO-028", "the rank in the model group is the position on axis model",
       "two meanings of one word", "topology.grid.models[shape=3x2]", "topology.grid.models[shape=1x4]",
       "the model group is one rank", each_rank_of_grid([](const Axes&, int, json& told) {
         told["get_model_parallel_rank"] = told["get_slice_parallel_rank"];
       })},
      {"top.last_rank_of_first_pipeline", "TOPO-029", "the rank of a stage is that of the first pipeline", "TOP-12",
       "topology.grid.stage_to_global[shape=3x2]", "topology.grid.stage_to_global[shape=4x1]", "there is one pipeline",
       each_rank_of_grid(last_rank_of_first_pipeline)},
      {"top.override_ignored", "TOPO-030", "the rank of a stage is in the asking rank's pipeline, whatever is given",
       "keyword arguments that nobody reads", "topology.grid.overrides[shape=3x2]",
       "topology.grid.overrides[shape=4x1]", "there is one pipeline", each_rank_of_grid(override_ignored)},
  };
}

std::vector<Mutant> order_mutants() {
  const char* const generator = "topology.rank_generator";
  const char* const span = "topology.hyper_comm_grid";
  const char* const all = "topology.initialize_model_parallel";
  return {
      {"top.first_name_slowest", "TOPO-031", "the last name of an order varies fastest", "DeepSpeed's order",
       "topology.orders.first_fastest[shape=3x2]", "topology.orders.first_fastest[shape=5]", "one axis has one order",
       groups_of_tokens(first_name_slowest)},
      {"top.merged_in_given_order", "TOPO-032",
       "the ranks of merged axes come in the order in which these are asked for", "loops in the order of the names",
       "topology.orders.merged[shape=3x2]", "topology.orders.merged[shape=5]", "one axis cannot be merged",
       groups_of_tokens(merged_in_given_order)},
      {"top.experts_ignored", "TOPO-033", "each rank is alone in its groups of experts",
       "ep is given to the wrong grid", "topology.orders.expert_grids[shape=3x2]",
       "topology.orders.expert_grids[shape=1x4]", "ep is 1 there", groups_of_tokens(experts_ignored)},
      {"top.no_offset", "TOPO-034", "groups begin at rank 0 of the world", "TOP-11",
       "topology.orders.offset[shape=3x2,begin=7]", "topology.orders.offset[shape=3x2,begin=0]", "they do begin at 0",
       results_of(generator, no_offset)},
      {"top.span_offset_forgotten", "TOPO-035", "a grid over a span begins at rank 0 of the world", "TOP-11",
       "topology.orders.spans[shape=random]", "topology.orders.spans[shape=3x2]", "the span begins at 0",
       results_of(span, no_offset)},
      {"top.span_last_fastest", "TOPO-035", "the last axis of a span is the fastest", "DeepSpeed's order",
       "topology.orders.spans[shape=3x2]", "topology.orders.spans[shape=5]", "one axis has one order",
       results_of(span, span_last_fastest)},
      {"top.view_of_the_base", "TOPO-051",
       "the groups of a view are the grid's where an axis is shared, else all ranks",
       "a view is taken for a second set of names", "topology.views.groups[shape=2x3x2x2]",
       "topology.views.groups[shape=2x3x1]", "the shared axis has one position",
       results_of(span, groups_of_view_are_whole)},
      {"top.shared_groups_made_twice", "TOPO-052", "every group of a view belongs to the view",
       "a group that is shared is made and freed twice", "topology.views.owners[shape=3x2]", "",
       "every case shares an axis",
       results_of(span,
                  [](const json&, json& result) {
                    for (auto& [name, view] : result["views"].items())
                      for (json& owner : view["owners"]) owner = name;
                  })},
      {"top.other_shared_groups_taken", "TOPO-053", "a shared axis may have other groups in the view",
       "only names are compared", "topology.refusals.views[fault=other_groups]",
       "topology.refusals.views[fault=not_in_the_view]", "the view has no such axis",
       takes(span, [](const json& args) { return args.at("views").at("other").at("shape") == json({3, 8}); })},
      {"top.embedding_on_every_stage", "TOPO-036", "all stages of a pipeline share the embedding",
       "TOP-12: the ends of a pipeline are not asked for", "topology.orders.all_groups[stages=3]",
       "topology.orders.all_groups[stages=2]", "the ends are all stages", results_of(all, embedding_on_every_stage)},
      {"top.experts_are_one_group", "TOPO-054", "all ranks of a run are in one group of experts",
       "right where ep takes all of data, and there is one stage", "topology.orders.expert_groups[stages=2]", "",
       "every case has runs of several groups", results_of(all, experts_are_one_group)},
      {"top.no_stage_after_the_last", "TOPO-055", "after the last stage comes itself", "REF-03",
       "topology.orders.places[stages=3]", "topology.orders.places[stages=1]", "the first stage is the last",
       results_of(all, no_stage_after_the_last)},
      {"top.order_not_completed", "TOPO-047", "an order in capitals is refused",
       "names are compared as they are written", "topology.megatron.orders", "",
       "all recorded orders are asked in one case",
       RewriteAnswer([](const std::string& op, const json& args, json reply) {
         const bool capital = op == "topology.rank_generator" && args.at("order") == "TP-DP-PP";
         return capital ? refusal("not_found", "no axis TP") : reply;
       })},
      {"top.groups_made_by_name", "TOPO-048", "groups are made in the order of their names",
       "GRP-01: groups must be made in one order by all programs", "topology.megatron.all_groups", "",
       "all recorded runs are asked in one case", results_of(all, groups_made_by_name)},
      {"top.oversized_span_taken", "TOPO-049", "a span may end beyond the world", "only the first rank is looked at",
       "topology.megatron.spans", "", "all recorded spans are asked in one case",
       takes(span,
             [](const json& args) {
               return args.value("convention", "") == "megatron" && args.at("shape") == json{4, 4};
             })},
  };
}

std::vector<Mutant> mesh_and_node_mutants() {
  const char* const mesh = "topology.device_mesh";
  const char* const placement = "topology.placement";
  return {
      {"top.mesh_transposed", "TOPO-037", "a mesh is written with its first dimension fastest", "Megatron-LM's order",
       "topology.meshes.row_major[shape=3x2]", "topology.meshes.row_major[shape=5]", "one dimension has one order",
       results_of(mesh, mesh_transposed)},
      {"top.local_rank_is_global", "TOPO-038", "the local rank on each dimension is the rank", "TOP-11",
       "topology.meshes.places[shape=3x2]", "topology.meshes.places[shape=5]", "on one dimension it is",
       results_of(mesh, local_rank_is_global)},
      {"top.mesh_group_of_rank_zero", "TOPO-038", "the group on each dimension is rank 0's",
       "a group made once, and shared", "topology.meshes.places[shape=3x2]", "topology.meshes.places[shape=5]",
       "there is one group",
       results_of(mesh,
                  [](const json&, json& result) {
                    for (json& one : result["ranks"]) one["group_ranks"] = result["ranks"][0]["group_ranks"];
                  })},
      {"top.slice_of_rank_zero", "TOPO-039", "a slice is the sub-mesh of rank 0, whoever asks",
       "a slice made once, and shared", "topology.meshes.slices[shape=3x2]", "topology.meshes.slices[shape=5]",
       "a mesh of one dimension is not sliced", results_of(mesh, slice_of_rank_zero)},
      {"top.flattened_first_fastest", "TOPO-040", "a flattened slice has its first dimension fastest",
       "Megatron-LM's order", "topology.meshes.flattened[shape=2x3x4]", "topology.meshes.flattened[shape=5]",
       "one dimension is not flattened", results_of(mesh, flattened_first_fastest)},
      {"top.slice_out_of_order", "TOPO-041", "a slice may name dimensions in any order",
       "names are looked up one by one", "topology.meshes.slices_in_order[slice=c-a]",
       "topology.meshes.slices_in_order[slice=a-c]", "the order is the mesh's", takes(mesh, is_out_of_order)},
      {"top.node_border_off_by_one", "TOPO-042", "a node begins one rank too early", "ranks that count from 1",
       "topology.nodes.crossing_groups[shape=3x2,ranks_per_node=2]",
       "topology.nodes.crossing_groups[shape=3x2,ranks_per_node=1]", "each rank is a node",
       results_of(placement, node_border_off_by_one)},
      {"top.ring_not_closed", "TOPO-043", "the last rank of a group sends nothing to the first",
       "a ring taken for a chain", "topology.nodes.crossing_bytes[shape=5,ranks_per_node=2]",
       "topology.nodes.crossing_bytes[shape=5,ranks_per_node=100]", "there is one node",
       results_of(placement, ring_not_closed)},
      {"top.best_order_is_the_given", "TOPO-044", "the order that is given is said to be the best", "nothing is tried",
       "topology.nodes.best_order[shape=2x3x4,ranks_per_node=8]",
       "topology.nodes.best_order[shape=2x3x4,ranks_per_node=100]", "in one node all orders are as good",
       results_of(placement, best_order_is_the_given)},
      {"top.first_node_of_all", "TOPO-042", "all nodes are as large as the first", "sizes are read as one number",
       "topology.nodes.crossing_groups[shape=random,ranks_per_node=uneven]",
       "topology.nodes.crossing_groups[shape=2x3x4,ranks_per_node=2]", "all nodes are as large",
       results_of(placement, first_node_of_all)},
      {"top.bytes_of_32_bits", "TOPO-043", "the bytes of an axis are counted with 32 bits",
       "sizes of models have grown", "topology.nodes.crossing_bytes[shape=3x2,ranks_per_node=2]",
       "topology.nodes.crossing_bytes[shape=3x2,ranks_per_node=100]", "there are none",
       results_of(placement, bytes_of_32_bits)},
      {"top.best_order_by_bytes", "TOPO-044", "the best order is by bytes alone, the most last",
       "right where all axes are of one size", "topology.nodes.best_order[shape=random,ranks_per_node=3]",
       "topology.nodes.best_order[shape=3x2,ranks_per_node=100]", "in one node all orders are as good",
       results_of(placement, best_order_by_bytes)},
      {"top.mesh_groups_reversed", "TOPO-050", "under the convention torch, groups come last first",
       "a list built backwards", "topology.torch.meshes", "", "all recorded meshes are asked in one case",
       results_of(mesh,
                  [](const json& args, json& result) {
                    if (args.value("convention", "") != "torch") return;
                    for (auto& [name, groups] : result["groups"].items()) std::reverse(groups.begin(), groups.end());
                  })},
      {"top.position_past_the_end_missing", "TOPO-045",
       "under the convention deepspeed, no list is told of the position past the end",
       "REF-01: what is not there is an error in most programs", "topology.deepspeed.recorded[kind=process_topology]",
       "topology.deepspeed.recorded[kind=prime_factors]", "there are no positions",
       results_of("topology.process_topology",
                  [](const json& args, json& result) {
                    if (!is_of_deepspeed(args)) return;
                    for (auto& [axis, lists] : result["axis_list"].items()) lists.erase(lists.size() - 1);
                  })},
      {"top.empty_world_refused", "TOPO-046", "under the convention deepspeed, a size of 0 is refused",
       "REF-01: what is not there is an error in most programs", "topology.deepspeed.corners", "",
       "all recorded corners are asked in one case",
       RewriteAnswer([](const std::string& op, const json& args, json reply) {
         const bool empty =
             op == "topology.query" && is_of_deepspeed(args) && std::ranges::count(args.at("dims"), json(0)) > 0;
         return empty ? refusal("invalid_argument", "a size of 0") : reply;
       })},
  };
}

}  // namespace

std::vector<Mutant> topology_mutants() {
  std::vector<Mutant> all;
  for (const auto kind : {map_mutants, refusal_mutants, grid_mutants, order_mutants, mesh_and_node_mutants})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
