// Topologies from a dozen ranks to 65,536, each answer held to arithmetic on rank numbers.
#include <algorithm>
#include <array>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/support/rank_grid.hpp"
#include "conformance/support/sizes.hpp"
#include "conformance/topology/shapes.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;

namespace {

Shape shape_of_ranks(int ranks, std::vector<std::string> axes = {"pipe", "data", "model"}) {
  return {.axes = std::move(axes), .dims = three_sizes(ranks)};
}

constexpr std::size_t kPipe = 0, kData = 1, kModel = 2;

std::string digits(int position) { return fmt::format("{:02}", position); }

// ---- topologies ----

json whole_map(const Shape& shape, const RankGrid& strides, bool lenient) {
  const int ranks = ranks_in(shape);
  json expected{{"world_size", ranks}, {"rank_of_coord", all_ranks(ranks)}};
  for (int rank = 0; rank < ranks; ++rank) expected["coords"].push_back(strides.position(rank));
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
    const std::string& name = shape.axes[axis];
    expected["get_dim"][name] = shape.dims[axis];
    expected["axis_comm_lists"][name] = strides.groups(axis);
    std::vector<Ranks> lists = strides.groups_beside(axis);
    if (lenient) lists.emplace_back();  // at the position after the last
    expected["axis_list"][name] = lists;
  }
  return expected;
}

JudgeSize whole_topology(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const Shape shape = shape_of_ranks(ranks);
    const RankGrid strides(shape.dims);
    const int last = ranks - 1, stage = shape.dims[kPipe] - 1;
    const json args{
        {"convention", convention},
        {"axes", shape.axes},
        {"dims", shape.dims},
        {"filter_match", {{{"filter", {{"pipe", stage}}}}}},
        {"rank_repr", {{{"rank", last}, {"omit_axes", nullptr}, {"inner_sep", nullptr}, {"outer_sep", nullptr}}}}};
    return problem_of(adapter, "topology.process_topology", args, [&](const json& result) {
      json expected = whole_map(shape, strides, convention == "deepspeed");
      expected["filter_match"] = {{{"filter", {{"pipe", stage}}}, {"ranks", strides.groups_beside(kPipe).back()}}};
      expected["rank_repr"] = {{{"rank", last}, {"repr", "model_" + digits(shape.dims[kModel] - 1)}}};
      return first_difference(expected, result);
    });
  };
}

// Ranks from all over a world: its ends, and some between.
Ranks some_ranks(int ranks) {
  Ranks some{0, 1, ranks / 3, ranks / 2 + 1, ranks - 2, ranks - 1};
  for (int rank = 5; rank < ranks; rank = rank * 3 + 1) some.push_back(rank);
  return some;
}

struct TopologyQuery {
  std::string call;
  json kwargs, expected;
};

std::vector<TopologyQuery> queries_of(const Shape& shape) {
  const int ranks = ranks_in(shape), model = shape.dims[kModel] - 1, data = shape.dims[kData] / 2;
  const RankGrid strides(shape.dims);
  std::vector<TopologyQuery> list{{"world_size", json::object(), ranks},
                                  {"get_axis_names", json::object(), shape.axes},
                                  {"get_dim", {{"axis", "data"}}, shape.dims[kData]},
                                  {"get_axis_comm_lists", {{"axis", "data"}}, strides.groups(kData)},
                                  {"filter_match", json::object(), all_ranks(ranks)}};
  const auto where = [&](auto fits) {
    Ranks found;
    for (int rank = 0; rank < ranks; ++rank)
      if (fits(rank)) found.push_back(rank);
    return found;
  };
  list.push_back({"get_axis_list", {{"axis", "model"}, {"idx", model}}, where([&](int rank) {
                    return strides.at(rank, kModel) == model;
                  })});
  list.push_back({"filter_match", {{"model", model}, {"data", data}}, where([&](int rank) {
                    return strides.at(rank, kModel) == model && strides.at(rank, kData) == data;
                  })});
  for (const int rank : some_ranks(ranks)) {
    const Position at = strides.position(rank);
    list.push_back({"get_rank", {{"pipe", at[kPipe]}, {"data", at[kData]}, {"model", at[kModel]}}, rank});
    list.push_back({"get_coord", {{"rank", rank}}, at});
    list.push_back({"get_rank_repr",
                    {{"rank", rank}, {"omit_axes", {"pipe"}}},
                    fmt::format("data_{}-model_{}", digits(at[kData]), digits(at[kModel]))});
    list.push_back({"stage_to_global",
                    {{"rank", rank}, {"stage_id", shape.dims[kPipe] - 1}, {"data", data}},
                    strides.moved(strides.moved(rank, kPipe, shape.dims[kPipe] - 1), kData, data)});
  }
  return list;
}

JudgeSize single_queries(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const Shape shape = shape_of_ranks(ranks);
    for (const auto& [call, kwargs, expected] : queries_of(shape)) {
      const json args{
          {"convention", convention}, {"axes", shape.axes}, {"dims", shape.dims}, {"call", call}, {"kwargs", kwargs}};
      std::string words = problem_of(adapter, "topology.query", args, [&](const json& result) {
        return first_difference(expected, result.at("result"), fmt::format("{}({})", call, kwargs.dump()));
      });
      if (!words.empty()) return words;
    }
    return std::string();
  };
}

std::string problem_of_factors(const std::vector<int>& factors, int n) {
  std::int64_t product = 1;
  for (const int factor : factors) {
    if (factor < 2) return fmt::format("{} is no prime", factor);
    for (int divisor = 2; std::int64_t{divisor} * divisor <= factor; ++divisor)
      if (factor % divisor == 0) return fmt::format("{} is no prime", factor);
    product *= factor;
    if (product > n) break;
  }
  if (product != n || !std::ranges::is_sorted(factors)) return fmt::format("[{}] of {}", fmt::join(factors, ","), n);
  return {};
}

JudgeSize prime_factors_at(const std::string& convention) {
  return [convention](Adapter& adapter, int n) {
    return problem_of(
        adapter, "topology.prime_factors", {{"convention", convention}, {"n", n}},
        [&](const json& result) { return problem_of_factors(result.at("factors").get<std::vector<int>>(), n); });
  };
}

// ---- grids ----

json told_by_grid(const Shape& shape, const RankGrid& strides, int rank) {
  const int models = shape.dims[kData], stages = shape.dims[kPipe], slices = shape.dims[kModel];
  const int datas = ranks_in(shape) / models, pipes = ranks_in(shape) / stages;
  const int stage = strides.at(rank, kPipe), slice = strides.at(rank, kModel), data = strides.at(rank, kData);
  const Ranks pipeline = strides.group(rank, kPipe), copies = strides.group(rank, kData);
  return {{"rank", rank},
          {"get_stage_id", stage},
          {"get_data_parallel_id", data},
          {"get_slice_parallel_rank", slice},
          {"get_model_parallel_rank", stage * slices + slice},
          {"get_model_parallel_world_size", stages * slices},
          {"is_first_stage", stage == 0},
          {"is_last_stage", stage == stages - 1},
          {"pp_group", pipeline},
          {"stage_to_global", pipeline},
          {"dp_group", copies},
          {"slice_group", strides.group(rank, kModel)},
          {"group_handles",
           {{"get_model_parallel_group", data},
            {"get_data_parallel_group", models + strides.number(rank, kData)},
            {"get_pipe_parallel_group", models + datas + strides.number(rank, kPipe)},
            {"get_slice_parallel_group", models + datas + pipes + strides.number(rank, kModel)}}}};
}

JudgeSize whole_grid(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const Shape shape = shape_of_ranks(ranks);
    const RankGrid strides(shape.dims);
    const json args{{"convention", convention}, {"world_size", ranks}, {"axes", shape.axes}, {"dims", shape.dims}};
    return problem_of(adapter, "topology.grid", args, [&](const json& result) {
      json expected{{"pipe_parallel_size", shape.dims[kPipe]},
                    {"data_parallel_size", shape.dims[kData]},
                    {"slice_parallel_size", shape.dims[kModel]}};
      std::vector<Ranks> calls = strides.groups_beside(kData);
      for (const std::size_t axis : {kData, kPipe, kModel})
        std::ranges::move(strides.groups(axis), std::back_inserter(calls));
      expected["new_group_calls"] = calls;
      for (int rank = 0; rank < ranks; ++rank) expected["ranks"].push_back(told_by_grid(shape, strides, rank));
      auto pairs = result.at("p2p_groups").get<std::vector<Ranks>>();
      std::ranges::sort(pairs);
      std::vector<Ranks> neighbours;
      for (int rank = 0; rank < ranks; ++rank)
        neighbours.push_back({rank, strides.moved(rank, kPipe, (strides.at(rank, kPipe) + 1) % shape.dims[kPipe])});
      const std::string words = first_difference(neighbours, pairs, "p2p_groups, sorted");
      return words.empty() ? first_difference(expected, result) : words;
    });
  };
}

// ---- orders and spans ----

const std::vector<std::string> kOrder{"tp", "dp", "pp"};  // the first fastest
constexpr std::size_t kTensor = 0, kCopies = 1, kStages = 2;

json groups_in_order(const RankGrid& strides, int offset) {
  json groups{{"tp", strides.groups(kTensor)},
              {"dp", strides.groups(kCopies)},
              {"pp", strides.groups(kStages)},
              {"tp-pp", strides.groups_beside(kCopies)}};
  for (json& lists : groups)
    for (json& list : lists)
      for (json& rank : list) rank = rank.get<int>() + offset;
  return groups;
}

JudgeSize generated_orders(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const Shape shape = shape_of_ranks(ranks, kOrder);
    const json args{
        {"convention", convention},
        {"sizes",
         {{"tp", shape.dims[0]}, {"dp", shape.dims[1]}, {"pp", shape.dims[2]}, {"ep", 1}, {"cp", 1}, {"gtp_remat", 1}}},
        {"order", "tp-dp-pp"},
        {"rank_offset", 3},
        {"tokens", {"tp", "dp", "pp", "tp-pp"}}};
    return problem_of(adapter, "topology.rank_generator", args, [&](const json& result) {
      return first_difference(
          {{"world_size", ranks}, {"groups", groups_in_order(RankGrid(shape.dims, RankGrid::Fastest::first), 3)}},
          result);
    });
  };
}

// The same ranks by two axes, the slower of which is the grid's own.
JudgeSize spans_and_views(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const Shape shape = shape_of_ranks(ranks, kOrder);
    const int experts = shape.dims[0] * shape.dims[1];
    const json args{{"convention", convention},
                    {"shape", shape.dims},
                    {"dim_names", shape.axes},
                    {"world_size", ranks + 9},
                    {"rank_offset", 5},
                    {"dims", {"tp", "dp", "pp", "tp-pp"}},
                    {"views",
                     {{"expert",
                       {{"shape", {experts, shape.dims[2]}},
                        {"dim_names", {"ep", "pp"}},
                        {"shared", {"pp"}},
                        {"dims", {"ep", "pp"}}}}}}};
    return problem_of(adapter, "topology.hyper_comm_grid", args, [&](const json& result) {
      const RankGrid strides(shape.dims, RankGrid::Fastest::first);
      json groups = groups_in_order(strides, 5), stages = strides.groups_beside(kStages);
      for (json& list : stages)
        for (json& rank : list) rank = rank.get<int>() + 5;
      const json view{{"groups", {{"ep", stages}, {"pp", groups["pp"]}}},
                      {"owners", {{"ep", "expert"}, {"pp", "base"}}}};
      return first_difference({{"groups", groups}, {"views", {{"expert", view}}}}, result);
    });
  };
}

// ---- meshes ----

JudgeSize whole_mesh(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const Shape shape = shape_of_ranks(ranks, {"x", "y", "z"});
    const json args{{"convention", convention},
                    {"shape", shape.dims},
                    {"dim_names", shape.axes},
                    {"slices", {"x-z"}},
                    {"world_size", ranks}};
    return problem_of(adapter, "topology.device_mesh", args, [&](const json& result) {
      const RankGrid strides(shape.dims);
      const json all = all_ranks(ranks);
      json expected{{"ranks", json::array()}};
      for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
        expected["groups"][shape.axes[axis]] = strides.groups(axis);
      const std::vector<Ranks> slices = strides.groups_beside(1);
      for (int rank = 0; rank < ranks; ++rank) {
        json row{{"rank", rank}, {"coordinate", strides.position(rank)}};
        for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) {
          row["local_rank"][shape.axes[axis]] = strides.at(rank, axis);
          row["group_ranks"][shape.axes[axis]] = strides.group(rank, axis);
        }
        row["flatten"]["x-z"] = slices[static_cast<std::size_t>(strides.at(rank, 1))];
        expected["ranks"].push_back(std::move(row));
        if (result.at("ranks").at(static_cast<std::size_t>(rank)).at("flatten").at("x-y-z") != all)
          return fmt::format("rank {}: the mesh flattened is not all ranks", rank);
      }
      for (int x = 0, rank = 0; x < shape.dims[0]; ++x) {
        json& plane = expected["mesh"].emplace_back(json::array());
        for (int y = 0; y < shape.dims[1]; ++y) {
          json& line = plane.emplace_back(json::array());
          for (int z = 0; z < shape.dims[2]; ++z) line.push_back(rank++);
        }
      }
      return first_difference(expected, result);
    });
  };
}

// Ranks seven apart, which no size asked for divides.
JudgeSize whole_mesh_of_ranks(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const Shape shape = shape_of_ranks(ranks, {"x", "y", "z"});
    const RankGrid strides(shape.dims);
    const auto given = [&](int place) { return (7 * place + 3) % ranks; };
    json args{{"convention", convention}, {"shape", shape.dims}, {"dim_names", shape.axes}, {"world_size", ranks}};
    for (int place = 0; place < ranks; ++place) args["ranks"].push_back(given(place));
    return problem_of(adapter, "topology.mesh_of_ranks", args, [&](const json& result) -> std::string {
      for (int place = 0; place < ranks; ++place) {
        const json& row = result.at("ranks").at(static_cast<std::size_t>(given(place)));
        std::string words = first_difference({{"rank", given(place)}, {"coordinate", strides.position(place)}}, row);
        for (std::size_t axis = 0; axis < shape.axes.size() && words.empty(); ++axis) {
          Ranks group = strides.group(place, axis);
          for (int& member : group) member = given(member);
          words = problem_of_group(row, shape.axes[axis], given(place), std::move(group));
        }
        if (!words.empty()) return fmt::format("rank {}: {}", given(place), words);
      }
      return {};
    });
  };
}

// ---- nodes ----

constexpr int kRanksOfNode = 8;
const std::vector<std::int64_t> kSent{7'000'000'000, 300, 11};  // bytes of each axis

struct Crossing {
  std::vector<std::int64_t> groups, bytes;
  std::int64_t total = 0;
};

Crossing crossing_of(const Shape& shape, const std::vector<std::int64_t>& sent) {
  const RankGrid strides(shape.dims);
  Crossing crossing;
  for (std::size_t axis = 0; axis < shape.dims.size(); ++axis) {
    std::int64_t messages = 0, groups = 0;
    for (int rank = 0; rank < ranks_in(shape); ++rank) {
      const int next = strides.moved(rank, axis, (strides.at(rank, axis) + 1) % shape.dims[axis]);
      messages += rank / kRanksOfNode != next / kRanksOfNode ? 1 : 0;
      const int last = strides.moved(rank, axis, shape.dims[axis] - 1);  // ranks of a group ascend, and so do nodes
      groups += strides.at(rank, axis) == 0 && rank / kRanksOfNode != last / kRanksOfNode ? 1 : 0;
    }
    crossing.groups.push_back(groups);
    crossing.bytes.push_back(messages * sent[axis]);
    crossing.total += crossing.bytes.back();
  }
  return crossing;
}

std::string whole_placement(Adapter& adapter, int ranks) {
  const Shape shape = shape_of_ranks(ranks);
  json args{{"axes", shape.axes}, {"dims", shape.dims}, {"ranks_per_node", kRanksOfNode}};
  for (std::size_t axis = 0; axis < kSent.size(); ++axis) args["bytes"][shape.axes[axis]] = kSent[axis];
  return problem_of(adapter, "topology.placement", args, [&](const json& result) {
    const Crossing given = crossing_of(shape, kSent);
    json expected{{"total", given.total}};
    for (std::size_t axis = 0; axis < kSent.size(); ++axis) {
      expected["crossing_groups"][shape.axes[axis]] = given.groups[axis];
      expected["crossing_bytes"][shape.axes[axis]] = given.bytes[axis];
    }
    std::int64_t fewest = given.total;
    for (std::array<std::size_t, 3> order{0, 1, 2}; std::ranges::next_permutation(order).found;) {
      Shape other;
      std::vector<std::int64_t> sent;
      for (const std::size_t axis : order) {
        other.dims.push_back(shape.dims[axis]);
        sent.push_back(kSent[axis]);
      }
      fewest = std::min(fewest, crossing_of(other, sent).total);
    }
    expected["best_total"] = fewest;
    return first_difference(expected, result);
  });
}

// ---- runs of Megatron-LM ----

json told_by_run(const Shape& shape, const RankGrid& strides, int rank) {
  const int stages = shape.dims[kStages], stage = strides.at(rank, kStages);
  const bool first = stage == 0, last = stage == stages - 1;
  return {{"rank", rank},
          {"get_tensor_model_parallel_rank", strides.at(rank, kTensor)},
          {"get_tensor_model_parallel_src_rank", strides.moved(rank, kTensor, 0)},
          {"get_data_parallel_rank", strides.at(rank, kCopies)},
          {"get_data_parallel_world_size", shape.dims[kCopies]},
          {"get_data_parallel_src_rank", strides.moved(rank, kCopies, 0)},
          {"get_model_parallel_src_rank", strides.moved(strides.moved(rank, kTensor, 0), kStages, 0)},
          {"get_pipeline_model_parallel_rank", stage},
          {"get_pipeline_model_parallel_world_size", stages},
          {"get_pipeline_model_parallel_next_rank", strides.moved(rank, kStages, (stage + 1) % stages)},
          {"get_pipeline_model_parallel_prev_rank", strides.moved(rank, kStages, (stage + stages - 1) % stages)},
          {"is_pipeline_first_stage", first},
          {"is_pipeline_last_stage", last},
          {"is_rank_in_embedding_group", first || last}};
}

JudgeSize whole_run(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const Shape shape = shape_of_ranks(ranks, kOrder);
    const json args{
        {"convention", convention},
        {"world_size", ranks},
        {"args",
         {{"tensor_model_parallel_size", shape.dims[kTensor]}, {"pipeline_model_parallel_size", shape.dims[kStages]}}}};
    return problem_of(adapter, "topology.initialize_model_parallel", args, [&](const json& result) {
      const RankGrid strides(shape.dims, RankGrid::Fastest::first);
      const json expected = groups_in_order(strides, 0);
      json found = json::object();
      for (const json& call : result.at("new_group_calls")) found[call.at(0).get<std::string>()].push_back(call.at(1));
      for (const auto& [name, token] :
           {std::pair("TENSOR_MODEL_PARALLEL_GROUP", "tp"), std::pair("DATA_PARALLEL_GROUP", "dp"),
            std::pair("PIPELINE_MODEL_PARALLEL_GROUP", "pp"), std::pair("MODEL_PARALLEL_GROUP", "tp-pp")})
        if (std::string words = first_difference(expected.at(token), found.at(name), name); !words.empty())
          return words;
      json told = json::array();
      for (int rank = 0; rank < ranks; ++rank) told.push_back(told_by_run(shape, strides, rank));
      return first_difference(told, result.at("ranks"), "ranks");
    });
  };
}

}  // namespace

void add_topology_size_checks(suite::Suite& suite) {
  const std::vector<int> worlds{12, 60, 1001, 65'536}, told_all{12, 60, 1001, 4096}, squared{12, 60, 720};
  // Of another system only what its own code answers within a minute.
  const auto add_apart = [&](const char* operation, const char* ours, const std::vector<int>& sizes, const char* others,
                             const std::vector<int>& sizes_of_others, JudgeSize (*judge)(const std::string&),
                             const char* convention) {
    add_sized_check(suite, "topology", {operation, ours, sizes, judge("plumbline")});
    add_sized_check(suite, "topology", {operation, others, sizes_of_others, judge(convention), convention});
  };
  const auto add = [&](const char* operation, const char* ours, const char* others, const std::vector<int>& sizes,
                       JudgeSize (*judge)(const std::string&),
                       const char* convention) { add_apart(operation, ours, sizes, others, sizes, judge, convention); };
  add("topology.process_topology", "TOPO-002@48f6", "TOPO-057@a43f", worlds, whole_topology, "deepspeed");
  // DeepSpeed lays the ranks out again for each question, divides by every number up to the largest factor, and each
  // rank lists the groups of all.
  add_apart("topology.query", "TOPO-003@662b", worlds, "TOPO-057@a43f", told_all, single_queries, "deepspeed");
  const std::vector<int> numbers{12, 1001, 65'536, 2'147'395'600},
      with_prime{12, 1001, 65'536, 2'147'395'600, 2'147'483'647};
  add_apart("topology.prime_factors", "TOPO-059@dd85", with_prime, "TOPO-045@1993", numbers, prime_factors_at,
            "deepspeed");
  add_apart("topology.grid", "TOPO-025@e2d5", told_all, "TOPO-060@3893", squared, whole_grid, "deepspeed");
  add("topology.rank_generator", "TOPO-034@3c39", "TOPO-047@aaa3", worlds, generated_orders, "megatron");
  add("topology.hyper_comm_grid", "TOPO-051@10f1", "TOPO-049@59de", worlds, spans_and_views, "megatron");
  add("topology.device_mesh", "TOPO-038@30f6", "TOPO-050@7d1c", squared, whole_mesh, "torch");
  add("topology.mesh_of_ranks", "TOPO-082@d232", "TOPO-082@d232", squared, whole_mesh_of_ranks, "torch");
  add("topology.initialize_model_parallel", "TOPO-055@9168", "TOPO-048@db3c", told_all, whole_run, "megatron");
  add_sized_check(suite, "topology", {"topology.placement", "TOPO-043@9acb", worlds, whole_placement});
}

}  // namespace plumbline::conformance
