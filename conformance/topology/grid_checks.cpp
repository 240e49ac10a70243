// The grid of a pipeline: stages, neighbours, groups, and what a rank is told of its place.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/topology/shapes.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

const ShapeLimits kGrids{.axes = 4, .ranks = 24, .always = {"pipe", "data"}};
constexpr int kTrials = 200;

// A shape, the position of each rank, and the lists that follow from them. Throws std::out_of_range for a rank or an
// axis that is not there: an adapter may name any.
class Expected {
 public:
  explicit Expected(const Shape& shape) : shape_(shape), positions_(positions_in(shape, Fastest::last)) {}

  [[nodiscard]] bool has(const std::string& axis) const { return number_of(shape_, axis) >= 0; }
  [[nodiscard]] int size(const std::string& axis) const {
    return has(axis) ? shape_.dims[static_cast<std::size_t>(number_of(shape_, axis))] : 1;
  }
  [[nodiscard]] int position(int rank, const std::string& axis) const {
    return has(axis)
               ? positions_.at(static_cast<std::size_t>(rank)).at(static_cast<std::size_t>(number_of(shape_, axis)))
               : 0;
  }
  [[nodiscard]] std::vector<Ranks> along(const std::string& axis) const {
    if (has(axis)) return lists_along(shape_, positions_, {number_of(shape_, axis)});
    std::vector<Ranks> alone;
    for (int rank = 0; rank < ranks_in(shape_); ++rank) alone.push_back({rank});
    return alone;
  }
  // All ranks of each data index.
  [[nodiscard]] std::vector<Ranks> models() const {
    std::vector<Ranks> lists(static_cast<std::size_t>(size("data")));
    for (int rank = 0; rank < ranks_in(shape_); ++rank)
      lists[static_cast<std::size_t>(position(rank, "data"))].push_back(rank);
    return lists;
  }
  // The rank at the position of `rank`, but for the axes that are given.
  [[nodiscard]] int moved(int rank, const std::map<std::string, int>& to) const {
    Position wanted = positions_.at(static_cast<std::size_t>(rank));
    for (const auto& [axis, index] : to) wanted.at(static_cast<std::size_t>(number_of(shape_, axis))) = index;
    return static_cast<int>(std::ranges::find(positions_, wanted) - positions_.begin());
  }

 private:
  const Shape& shape_;
  std::vector<Position> positions_;
};

int place_in(const Ranks& list, int rank) { return static_cast<int>(std::ranges::find(list, rank) - list.begin()); }

using JudgeGrid = std::function<std::string(const Shape&, const Expected&, const json& grid)>;

// Under the convention of the check, where it has one.
void judge_grids(Context& context, const JudgeGrid& judge, const char* convention = "plumbline") {
  judge_shapes(
      context,
      [&](const Shape& shape) {
        const json args{
            {"world_size", ranks_in(shape)}, {"axes", shape.axes}, {"dims", shape.dims}, {"convention", convention}};
        return problem_of(context.adapter(), "topology.grid", args,
                          [&](const json& grid) { return judge(shape, Expected(shape), grid); });
      },
      kGrids, kTrials);
}

// Compares what each rank is told with `told(expected, rank)`.
void judge_ranks(Context& context, const std::function<json(const Expected&, int rank)>& told,
                 const char* convention = "plumbline") {
  judge_grids(
      context,
      [&](const Shape& shape, const Expected& expected, const json& grid) -> std::string {
        if (static_cast<int>(grid.at("ranks").size()) != ranks_in(shape))
          return fmt::format("answers of {} ranks, {} there are", grid.at("ranks").size(), ranks_in(shape));
        for (int rank = 0; rank < ranks_in(shape); ++rank)
          if (auto words = first_difference(told(expected, rank), grid["ranks"].at(static_cast<std::size_t>(rank)),
                                            fmt::format("ranks[{}]", rank));
              !words.empty())
            return words;
        return {};
      },
      convention);
}

// ---- the default grid ----

// By trial division upwards, with no regard to time.
std::vector<int> prime_factors_of(int n) {
  std::vector<int> factors;
  for (int candidate = 2; n > 1; ++candidate)
    for (; n % candidate == 0; n /= candidate) factors.push_back(candidate);
  return factors;
}

void prime_factors(Context& context) {
  const int from = static_cast<int>(context.parameters().number("from"));
  for (int n = from; n < from + 32; ++n)
    report_words(problem_of(context.adapter(), "topology.prime_factors", {{"n", n}}, [&](const json& result) {
      return first_difference(prime_factors_of(n), result.at("factors"), fmt::format("factors of {}", n));
    }));
}

// Worlds of 1 to 64 ranks: how many stages; the rest is data.
constexpr int kStages[] = {1,  2, 3,  2,  5, 2,  7,  4,  3,  2, 11, 6, 13, 2, 3,  4, 17, 6, 19, 10, 3,  2,
                           23, 4, 5,  2,  9, 14, 29, 10, 31, 8, 3,  2, 5,  6, 37, 2, 3,  4, 41, 14, 43, 22,
                           15, 2, 47, 12, 7, 10, 3,  26, 53, 6, 5,  4, 3,  2, 59, 6, 61, 2, 21, 8};

void default_grid(Context& context) {
  const int from = static_cast<int>(context.parameters().number("from"));
  for (int world = from; world < from + 8; ++world) {
    const int stages = kStages[world - 1];
    const json args{{"world_size", world}, {"axes", nullptr}, {"dims", nullptr}};
    report_words(problem_of(context.adapter(), "topology.grid", args, [&](const json& grid) {
      return first_difference({{"pipe_parallel_size", stages}, {"data_parallel_size", world / stages}}, grid,
                              fmt::format("grid of {}", world));
    }));
  }
}

void sizes(Context& context) {
  judge_grids(context, [](const Shape&, const Expected& expected, const json& grid) {
    return first_difference({{"pipe_parallel_size", expected.size("pipe")},
                             {"data_parallel_size", expected.size("data")},
                             {"model_parallel_size", expected.size("model")},
                             {"slice_parallel_size", expected.size("model")}},
                            grid, "grid");
  });
}

void large_factors(Context& context) {
  static const std::map<std::string, std::vector<int>> kFactors{{"65521", {65521}},
                                                                {"2147483647", {2147483647}},
                                                                {"2147117569", {46337, 46337}},
                                                                {"2147483646", {2, 3, 3, 7, 11, 31, 151, 331}},
                                                                {"2147395600", {2, 2, 2, 2, 5, 5, 7, 7, 331, 331}}};
  const std::string& n = context.parameters().text("n");
  report_words(problem_of(context.adapter(), "topology.prime_factors", {{"n", std::stoi(n)}}, [&](const json& result) {
    return first_difference(kFactors.at(n), result.at("factors"), "factors of " + n);
  }));
}

// ---- pairs ----

void pairs(Context& context) {
  judge_grids(context, [](const Shape& shape, const Expected& expected, const json& grid) -> std::string {
    const auto list = grid.at("p2p_groups").get<std::vector<Ranks>>();
    std::set<int> first, second;
    for (const Ranks& pair : list) {
      const int next = (expected.position(pair.at(0), "pipe") + 1) % expected.size("pipe");
      const int peer = expected.moved(pair.at(0), {{"pipe", next}});
      if (pair.size() != 2 || pair[1] != peer)
        return fmt::format("the pair [{}]: after {} comes {}", fmt::join(pair, ","), pair[0], peer);
      first.insert(pair[0]);
      second.insert(pair[1]);
    }
    const auto world = static_cast<std::size_t>(ranks_in(shape));
    if (list.size() != world || first.size() != world || second.size() != world)
      return fmt::format("{} pairs, {} ranks first and {} second in one, in a world of {}", list.size(), first.size(),
                         second.size(), world);
    return {};
  });
}

// ---- groups ----

void creation_order(Context& context) {
  judge_grids(context, [](const Shape&, const Expected& expected, const json& grid) {
    std::vector<Ranks> calls = expected.models();
    for (const auto& lists : {expected.along("data"), expected.along("pipe"), expected.along("model")})
      calls.insert(calls.end(), lists.begin(), lists.end());
    return first_difference(calls, grid.at("new_group_calls"), "new_group_calls");
  });
}

void handles(Context& context) {
  judge_grids(context, [](const Shape& shape, const Expected& expected, const json& grid) -> std::string {
    const auto calls = grid.at("new_group_calls").get<std::vector<Ranks>>();
    const std::map<std::string, std::vector<Ranks>> groups{{"get_pipe_parallel_group", expected.along("pipe")},
                                                           {"get_data_parallel_group", expected.along("data")},
                                                           {"get_model_parallel_group", expected.models()},
                                                           {"get_slice_parallel_group", expected.along("model")}};
    for (int rank = 0; rank < ranks_in(shape); ++rank)
      for (const auto& [getter, lists] : groups) {
        const int handle = grid.at("ranks").at(static_cast<std::size_t>(rank)).at("group_handles").at(getter);
        if (auto words = first_difference(list_with(lists, rank), calls.at(static_cast<std::size_t>(handle)),
                                          fmt::format("{} of rank {}", getter, rank));
            !words.empty())
          return words;
      }
    return {};
  });
}

// ---- what a rank is told ----

void stages(Context& context) {
  judge_ranks(context, [](const Expected& expected, int rank) -> json {
    return {{"get_stage_id", expected.position(rank, "pipe")},
            {"get_pipe_parallel_rank", expected.position(rank, "pipe")},
            {"get_pipe_parallel_world_size", expected.size("pipe")},
            {"get_pipeline_model_parallel_rank", expected.position(rank, "pipe")},
            {"get_pipeline_model_parallel_world_size", expected.size("pipe")},
            {"pp_group", list_with(expected.along("pipe"), rank)}};
  });
}

// Of each pipeline exactly one rank is first and exactly one is last, and they are its ends.
void ends(Context& context) {
  judge_grids(context, [](const Shape&, const Expected& expected, const json& grid) -> std::string {
    const auto marked = [&](const Ranks& pipeline, const char* mark) {
      Ranks ranks;
      std::ranges::copy_if(pipeline, std::back_inserter(ranks), [&](int rank) {
        return grid.at("ranks").at(static_cast<std::size_t>(rank)).at(mark).get<bool>();
      });
      return ranks;
    };
    for (const Ranks& pipeline : expected.along("pipe"))
      for (const auto& [mark, end] :
           {std::pair("is_first_stage", pipeline.front()), {"is_last_stage", pipeline.back()}})
        if (const Ranks ranks = marked(pipeline, mark); ranks != Ranks{end})
          return fmt::format("{} in the pipeline [{}]: expected of {} alone, got of [{}]", mark,
                             fmt::join(pipeline, ","), end, fmt::join(ranks, ","));
    return {};
  });
}

void data_parallel(Context& context) {
  judge_ranks(context, [](const Expected& expected, int rank) -> json {
    const Ranks group = list_with(expected.along("data"), rank);
    return {{"get_data_parallel_id", expected.position(rank, "data")},
            {"get_data_parallel_rank", expected.position(rank, "data")},
            {"get_data_parallel_world_size", expected.size("data")},
            {"get_data_parallel_group_ranks", group},
            {"dp_group", group}};
  });
}

void slices(Context& context) {
  judge_ranks(context, [](const Expected& expected, int rank) -> json {
    return {{"get_slice_parallel_rank", expected.position(rank, "model")},
            {"get_slice_parallel_world_size", expected.size("model")},
            {"get_tensor_model_parallel_rank", expected.position(rank, "model")},
            {"get_tensor_model_parallel_world_size", expected.size("model")},
            {"slice_group", list_with(expected.along("model"), rank)}};
  });
}

void models(Context& context) {
  judge_ranks(context, [](const Expected& expected, int rank) -> json {
    const Ranks model = list_with(expected.models(), rank);
    return {{"get_global_rank", rank},
            {"get_model_parallel_rank", place_in(model, rank)},
            {"get_model_parallel_world_size", model.size()}};
  });
}

json ranks_of_stages(const Expected& expected, int rank) {
  json ranks = json::array();
  for (int stage = 0; stage < expected.size("pipe"); ++stage) ranks.push_back(expected.moved(rank, {{"pipe", stage}}));
  return ranks;
}

void stage_to_global(Context& context) {
  judge_ranks(context, [](const Expected& expected, int rank) -> json {
    return {{"stage_to_global", ranks_of_stages(expected, rank)}};
  });
}

void as_deepspeed(Context& context) {
  const auto told = [](const Expected& expected, int rank) -> json {
    return {{"get_stage_id", expected.position(rank, "pipe")},
            {"get_data_parallel_id", expected.position(rank, "data")},
            {"get_slice_parallel_rank", expected.position(rank, "model")},
            {"get_model_parallel_rank", place_in(list_with(expected.models(), rank), rank)},
            {"pp_group", list_with(expected.along("pipe"), rank)},
            {"dp_group", list_with(expected.along("data"), rank)},
            {"stage_to_global", ranks_of_stages(expected, rank)}};
  };
  judge_ranks(context, told, "deepspeed");
}

// Each rank asks for the stage of another, with that one's positions on all other axes, and then on the last of them
// alone.
std::string problem_of_asked_overrides(suite::Adapter& adapter, const Shape& shape, const Expected& expected) {
  const int world = ranks_in(shape);
  for (int rank = 0; rank < world; ++rank) {
    const int other = (7 * rank + 5) % world;
    std::map<std::string, int> to;
    for (const std::string& axis : shape.axes)
      if (axis != "pipe") to[axis] = expected.position(other, axis);
    for (; !to.empty(); to.erase(to.begin())) {
      json kwargs = to;
      kwargs["rank"] = rank;
      kwargs["stage_id"] = expected.position(other, "pipe");
      auto wanted = to;
      wanted["pipe"] = expected.position(other, "pipe");
      const json args{{"axes", shape.axes}, {"dims", shape.dims}, {"call", "stage_to_global"}, {"kwargs", kwargs}};
      if (auto words = problem_of(adapter, "topology.query", args,
                                  [&](const json& result) {
                                    return first_difference(expected.moved(rank, wanted), result.at("result"),
                                                            "stage_to_global " + kwargs.dump());
                                  });
          !words.empty())
        return words;
    }
  }
  return {};
}

// Overrides are asked for by the adapter itself, too: what it says that it asked, and got.
void overrides(Context& context) {
  judge_grids(context, [&](const Shape& shape, const Expected& expected, const json& grid) -> std::string {
    for (int rank = 0; rank < ranks_in(shape); ++rank) {
      const json& asked = grid.at("ranks").at(static_cast<std::size_t>(rank)).at("stage_to_global_overrides");
      if (asked.empty()) return fmt::format("rank {} asked for no override", rank);
      for (const json& one : asked) {
        auto to = one.at("override").get<std::map<std::string, int>>();
        to["pipe"] = one.at("stage_id");
        if (auto words = first_difference(
                expected.moved(rank, to), one.at("rank"),
                fmt::format("rank {}: stage_to_global({}, {})", rank, to["pipe"], one["override"].dump()));
            !words.empty())
          return words;
      }
    }
    return problem_of_asked_overrides(context.adapter(), shape, expected);
  });
}

suite::Check grid_check(std::string id, std::string verifies, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {shapes({"1x4", "4x1", "3x2", "2x3x1", "2x2x3", "2x3x4x5", "random"})},
          .operations = {"topology.grid"},
          .body = std::move(body)};
}

}  // namespace

void add_grid_checks(suite::Suite& suite) {
  suite::Check factors = grid_check("topology.grid.prime_factors", "TOPO-019@6e8d", prime_factors);
  factors.axes = {{"from", {"1", "33", "65", "97"}}};
  factors.operations = {"topology.prime_factors"};
  suite.add(std::move(factors));
  suite::Check usual = grid_check("topology.grid.default", "TOPO-020@018e", default_grid);
  usual.axes = {{"from", {"1", "9", "17", "25", "33", "41", "49", "57"}}};
  suite.add(std::move(usual));
  suite.add(grid_check("topology.grid.stages", "TOPO-021@3352", stages));
  suite.add(grid_check("topology.grid.ends", "TOPO-022@68c4", ends));
  suite.add(grid_check("topology.grid.pairs", "TOPO-023@5bdd", pairs));
  suite.add(grid_check("topology.grid.creation_order", "TOPO-024@f983", creation_order));
  suite.add(grid_check("topology.grid.handles", "TOPO-025@e2d5", handles));
  suite.add(grid_check("topology.grid.data_parallel", "TOPO-026@e032", data_parallel));
  suite.add(grid_check("topology.grid.slices", "TOPO-027@dd93", slices));
  suite.add(grid_check("topology.grid.models", "TOPO-028@6be2", models));
  suite.add(grid_check("topology.grid.stage_to_global", "TOPO-029@9b23", stage_to_global));
  suite::Check overridden = grid_check("topology.grid.overrides", "TOPO-030@6b68", overrides);
  overridden.operations.emplace_back("topology.query");
  suite.add(std::move(overridden));
  suite.add(grid_check("topology.grid.sizes", "TOPO-058@fabf", sizes));
  suite::Check large = grid_check("topology.grid.large_factors", "TOPO-059@dd85", large_factors);
  large.axes = {{"n", {"65521", "2147117569", "2147395600", "2147483646", "2147483647"}}};
  large.operations = {"topology.prime_factors"};
  suite.add(std::move(large));
  suite::Check lenient = grid_check("topology.deepspeed.grid", "TOPO-060@3893", as_deepspeed);
  lenient.convention = "deepspeed";
  suite.add(std::move(lenient));
}

}  // namespace plumbline::conformance
