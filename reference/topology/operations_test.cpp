// topology.*: what the conventions have in common, where they part, and what is refused. Recorded answers are asked by
// the conformance checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"
#include "reference/adapter/protocol.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json ask_topology(const std::string& operation, const std::string& args) {
  return adapter::ask("topology." + operation, json::parse(args));
}

std::string error_of_topology(const std::string& operation, const std::string& args) {
  try {
    return ask_topology(operation, args).dump();
  } catch (const Refused& error) {
    return error.what();
  }
}

// topology.query of a world of pipe 2, data 3, model 4, in a convention; the error's text where it is refused.
std::string query(const std::string& convention, const std::string& call, const std::string& kwargs) {
  const std::string args = R"({"axes":["pipe","data","model"],"dims":[2,3,4],"convention":")" + convention +
                           R"(","call":")" + call + R"(","kwargs":)" + kwargs + "}";
  try {
    return ask_topology("query", args).at("result").dump();
  } catch (const Refused& error) {
    return error.what();
  }
}

struct Question {
  const char* call;
  const char* kwargs;
  const char* deepspeed;
  const char* plumbline;
};

TEST(TopologyQuery, AnswersEveryMethodInBothConventions) {
  for (const auto& [call, kwargs, deepspeed, plumbline] : std::initializer_list<Question>{
           {"get_rank", R"({"pipe":1,"data":2,"model":3})", "23", "23"},
           {"get_coord", R"({"rank":23})", "[1,2,3]", "[1,2,3]"},
           {"get_dim", R"({"axis":"data"})", "3", "3"},
           {"get_axis_names", "{}", R"(["pipe","data","model"])", R"(["pipe","data","model"])"},
           {"get_axis_list", R"({"axis":"model","idx":3})", "[3,7,11,15,19,23]", "[3,7,11,15,19,23]"},
           {"filter_match", R"({"pipe":1,"data":0})", "[12,13,14,15]", "[12,13,14,15]"},
           {"get_rank_repr", R"({"rank":23})", R"("model_03")", R"("model_03")"},
           {"get_rank_repr", R"({"rank":23,"omit_axes":["model"],"inner_sep":"","outer_sep":"."})",
            R"("pipe01.data02")", R"("pipe01.data02")"},
           {"world_size", "{}", "24", "24"},
           {"stage_to_global", R"({"rank":1,"stage_id":1,"data":2})", "21", "21"},
           // What one of them has and the other has not.
           {"get_dim", R"({"axis":"x"})", "0", "no axis 'x'"},
           {"get_axis_comm_lists", R"({"axis":"x"})", "[]", "no axis 'x'"},
           {"get_axis_list", R"({"axis":"data","idx":3})", "[]", "position 3"},
           {"filter_match", R"({"model":-1})", "[]", "position -1"},
           {"filter_match", R"({"a":0,"model":9})", "[]", "no axis 'a'"},
           {"filter_match", R"({"a":0,"model":3})", "no axis 'a'", "no axis 'a'"},
           {"get_rank", R"({"data":9,"pipe":0,"x":0})", "no axis 'x'", "no axis 'x'"},
           {"get_rank_repr", R"({"rank":99,"omit_axes":["pipe","data","model"]})", R"("")", "rank 99"},
           // What both refuse.
           {"get_rank", R"({"pipe":0,"data":1})", "missing: model", "missing: model"},
           {"get_rank", R"({"pipe":2,"data":0,"model":0})", "position 2 on axis 'pipe'", "position 2 on axis 'pipe'"},
           {"get_rank", R"({"pipe":0,"data":0,"tensor":0})", "no axis 'tensor'", "no axis 'tensor'"},
           {"get_coord", R"({"rank":24})", "rank 24", "rank 24"},
           {"get_axis_list", R"({"axis":"x","idx":0})", "no axis 'x'", "no axis 'x'"},
           {"filter_match", R"({"x":0})", "no axis 'x'", "no axis 'x'"},
           {"get_rank_repr", R"({"rank":24})", "rank 24", "rank 24"},
           {"stage_to_global", R"({"rank":0,"stage_id":2})", "position 2", "position 2"},
           {"stage_to_global", R"({"rank":0,"stage_id":0,"pipe":1})", "may not override pipe", "may not override pipe"},
           {"get_coord", R"({"rnk":0})", "kwargs.rank is missing", "kwargs.rank is missing"},
           {"get_coord", R"({"rank":0,"x":1})", "unknown field 'kwargs.x'", "unknown field 'kwargs.x'"},
           {"get_rnk", "{}", "call must be one of get_rank, get_coord", "call must be one of get_rank, get_coord"}}) {
    EXPECT_THAT(query("deepspeed", call, kwargs), HasSubstr(deepspeed)) << call << kwargs;
    EXPECT_THAT(query("plumbline", call, kwargs), HasSubstr(plumbline)) << call << kwargs;
  }
}

TEST(TopologyQuery, PrintsInItsOwnWords) {
  const auto text = [](const std::string& convention) {
    return ask_topology("query", R"({"axes":["a"],"dims":[2],"call":"__str__","convention":")" + convention + "\"}")
        .at("result");
  };
  EXPECT_EQ(text("deepspeed"), "{ProcessCoord(a=0): 0, ProcessCoord(a=1): 1}");
  EXPECT_EQ(text("plumbline"), "a=2");
}

TEST(ProcessTopologyOperation, LooksBeyondTheEndInOneConventionAlone) {
  const std::string world = R"({"axes":["a","b"],"dims":[1,2],"filter_match":[{"filter":{"b":1}}],)"
                            R"("rank_repr":[{"rank":1,"omit_axes":["a"],"inner_sep":null}])";
  json wanted = json::parse(R"({"world_size":2,"coords":[[0,0],[0,1]],"rank_of_coord":[0,1],
    "get_dim":{"a":1,"b":2},"axis_comm_lists":{"a":[[0],[1]],"b":[[0,1]]},"axis_list":{"a":[[0,1]],"b":[[0],[1]]},
    "filter_match":[{"filter":{"b":1},"ranks":[1]}],
    "rank_repr":[{"rank":1,"omit_axes":["a"],"inner_sep":null,"outer_sep":null,"repr":"b_01"}]})");
  EXPECT_EQ(ask_topology("process_topology", world + "}"), wanted);
  wanted["get_dim"]["absent"] = 0;
  wanted["axis_comm_lists"]["absent"] = json::array();
  for (const char* axis : {"a", "b"}) wanted["axis_list"][axis].push_back(json::array());
  EXPECT_EQ(ask_topology("process_topology", world + R"(,"convention":"deepspeed"})"), wanted);
}

TEST(ProcessTopologyOperation, HasCornersInOneConventionAlone) {
  const auto world_size = [](const std::string& axes_and_dims, const char* convention) {
    return error_of_topology("query",
                             "{" + axes_and_dims + R"(,"call":"world_size","convention":")" + convention + "\"}");
  };
  const auto both = [&](const std::string& axes_and_dims, const char* deepspeed, const char* plumbline) {
    EXPECT_THAT(world_size(axes_and_dims, "deepspeed"), HasSubstr(deepspeed)) << axes_and_dims;
    EXPECT_THAT(world_size(axes_and_dims, "plumbline"), HasSubstr(plumbline)) << axes_and_dims;
  };
  both(R"("axes":["a","b"],"dims":[2,0])", R"({"result":0})", "axis 'b' must have a size of 1 or more, got 0");
  both(R"("axes":["a","b"],"dims":[2,-1])", R"({"result":0})", "got -1");
  both(R"("axes":["a"],"dims":[2,3])", R"({"result":2})", "1 axes [a] but 2 sizes [2, 3]");
  both(R"("axes":["1x"],"dims":[2])", "must be an identifier", R"({"result":2})");
  both(R"("axes":[],"dims":[])", R"({"result":1})", "no axes in []");
  both(R"("axes":["a","b"],"dims":[0])", R"({"result":0})", "2 axes [a, b] but 1 sizes [0]");
  both(R"("axes":["a","a"],"dims":[2,2])", "'a' is twice", "'a' is twice");
  both(R"("axes":["a","b"],"dims":[2])", "2 axes [a, b] but 1 sizes [2]", "2 axes [a, b] but 1 sizes [2]");
}

// Each would take hours, gigabytes or a line that is too long.
TEST(TopologyOperations, RefuseAnswersThatNoLineHoldsBeforeTheyAreMade) {
  const auto expect_refused = [](const std::string& operation, const std::string& args) {
    const std::string error = error_of_topology(operation, args);
    EXPECT_THAT(error, HasSubstr("unsupported")) << args;
    EXPECT_THAT(error, testing::AnyOf(HasSubstr("fit in a line"), HasSubstr("of at most 64"))) << args;
  };
  for (const char* dims : {"[300000000,0]", "[2147483647,0]", "[0,2147483647]"})
    expect_refused("process_topology",
                   std::string(R"({"axes":["a","b"],"convention":"deepspeed","dims":)") + dims + "}");
  expect_refused("process_topology", R"({"axes":["a","b","c"],"dims":[2,800000,1]})");
  expect_refused("query", R"({"axes":["a","b"],"dims":[2000000000,0],"convention":"deepspeed",)"
                          R"("call":"get_axis_comm_lists","kwargs":{"axis":"b"}})");
  const std::string large = R"({"axes":["a","b"],"dims":[2,1073741823],"convention":"deepspeed","call":)";
  for (const char* call : {R"("get_axis_list","kwargs":{"axis":"a","idx":1}})", R"("filter_match"})", R"("__str__"})"})
    expect_refused("query", large + call);
  expect_refused("grid", R"({"world_size":2147483647})");
  expect_refused("grid", R"({"world_size":40000,"axes":["pipe","data"],"dims":[40000,1]})");
  expect_refused("rank_generator", R"({"sizes":{"tp":2147483647},"order":"tp"})");
  expect_refused("hyper_comm_grid", R"({"shape":[46000,46000],"dim_names":["tp","dp"]})");
  expect_refused("device_mesh", R"({"shape":[46000,46000],"dim_names":["tp","dp"],"slices":["tp-dp"]})");
  expect_refused("device_mesh", R"({"shape":[2147483647],"dim_names":["tp"]})");
  std::string names = R"("0")", ones = "1";
  for (int i = 1; i < 65; ++i) {
    names += ",\"" + std::to_string(i) + "\"";
    ones += ",1";
  }
  const std::string axes = R"({"axes":[)" + names + R"(],"dims":[)" + ones + "]";
  for (const char* operation : {"process_topology", "query"})
    expect_refused(operation, axes + (operation[0] == 'q' ? R"(,"call":"world_size"})" : "}"));
  expect_refused("grid", axes + R"(,"world_size":1})");
  expect_refused("placement", axes + R"(,"ranks_per_node":1,"bytes":{}})");
  for (const char* operation : {"hyper_comm_grid", "device_mesh"})
    expect_refused(operation, R"({"dim_names":[)" + names + R"(],"shape":[)" + ones + "]}");
}

TEST(TopologyOperations, AnswerWhatALineHolds) {
  const json world =
      ask_topology("query", R"({"axes":["a","b"],"dims":[1048576,2047],"call":"filter_match","kwargs":{"a":5}})");
  EXPECT_EQ(world["result"].size(), 2047u);
  EXPECT_EQ(ask_topology("query", R"({"axes":["a","b"],"dims":[2147483647,1],"call":"__str__"})")["result"],
            "a=2147483647 b=1");
  EXPECT_EQ(ask_topology("placement",
                         R"({"axes":["a","b"],"dims":[2,536870912],"ranks_per_node":1,"bytes":{"a":1}})")["total"],
            1073741824);
}

// What is answered fits: close to the longest answers that are made. The line is not read: that takes longer than to
// make it.
TEST(TopologyOperations, EstimateNoLessThanTheLength) {
  const AdapterService service = reference_service();
  for (const auto& [operation, args] : std::initializer_list<std::pair<const char*, const char*>>{
           {"topology.process_topology", R"({"axes":["a","b"],"dims":[1,900000],"convention":"deepspeed"})"},
           {"topology.device_mesh", R"({"shape":[59,59],"dim_names":["a","b"]})"}}) {
    const std::size_t length = service.handle(request_line(1, operation, json::parse(args))).size();
    EXPECT_LT(length, kLongestLine) << operation;
    EXPECT_GT(length, kLongestLine / 2) << operation;
  }
}

TEST(PrimeFactorsOperation, Answers) {
  EXPECT_EQ(ask_topology("prime_factors", R"({"n":360})"), json::parse(R"({"factors":[2,2,2,3,3,5]})"));
  EXPECT_THAT(error_of_topology("prime_factors", R"({"n":0,"convention":"deepspeed"})"),
              HasSubstr("at least 1, got 0"));
}

TEST(GridOperation, TellsEveryRankItsPlace) {
  const json grid =
      ask_topology("grid", R"({"world_size":8,"axes":["pipe","data","model","expert"],"dims":[2,2,1,2]})");
  EXPECT_EQ(grid["new_group_calls"], json::parse("[[0,1,4,5],[2,3,6,7],[0,2],[1,3],[4,6],[5,7],[0,4],[1,5],[2,6],[3,7],"
                                                 "[0],[1],[2],[3],[4],[5],[6],[7]]"));
  EXPECT_EQ(grid["p2p_groups"][5], json::parse("[5,1]"));
  const json& rank = grid["ranks"][5];
  EXPECT_EQ(rank["get_slice_parallel_rank"], 0);
  EXPECT_EQ(rank["get_model_parallel_rank"], 3);
  EXPECT_EQ(rank["dp_group"], json::parse("[5,7]"));
  EXPECT_EQ(rank["group_handles"], json::parse(R"({"get_model_parallel_group":0,"get_data_parallel_group":5,
    "get_pipe_parallel_group":7,"get_slice_parallel_group":15})"));
  EXPECT_EQ(rank["stage_to_global_overrides"].back(),
            json::parse(R"({"stage_id":1,"override":{"data":1,"model":0,"expert":1},"rank":7})"));
  EXPECT_EQ(ask_topology("grid", R"({"world_size":12})")["pipe_parallel_size"], 6);
}

TEST(GridOperation, TakesSurplusSizesOfOneAsDeepSpeedDoes) {
  const std::string four = R"({"world_size":4,"axes":["pipe","data"],"convention":"deepspeed","dims":)";
  EXPECT_EQ(ask_topology("grid", four + "[2,2,1]}"), ask_topology("grid", four + "[2,2]}"));
  EXPECT_THAT(error_of_topology("grid", four + "[2,2,2]}"), HasSubstr("are not counted from 0 on"));
  EXPECT_THAT(error_of_topology("grid", four + "[-2,-2]}"), HasSubstr("are not counted from 0 on"));
  EXPECT_THAT(error_of_topology("grid", R"({"world_size":4,"axes":["pipe","data"],"dims":[2,2,1]})"),
              HasSubstr("3 sizes"));
}

TEST(StageToGlobal, RefusesAxesNamedAsItsArguments) {
  for (const std::string axis : {"rank", "stage_id"})
    EXPECT_THAT(error_of_topology("query", R"({"axes":["pipe","data",")" + axis +
                                               R"("],"dims":[2,2,2],)"
                                               R"("call":"stage_to_global","kwargs":{"rank":0,"stage_id":1}})"),
                HasSubstr("takes '" + axis + "' for its own argument"));
}

TEST(GridOperation, Refuses) {
  EXPECT_THAT(error_of_topology("grid", R"({"world_size":3,"axes":["pipe","data"],"dims":[2,2]})"),
              HasSubstr("Invalid Grid: pipe=2 data=2 has 4 ranks from 0 on, the world has 3"));
  EXPECT_THAT(error_of_topology("grid", R"({"world_size":4,"axes":["pipe"],"dims":[4]})"), HasSubstr("no axis 'data'"));
  EXPECT_THAT(error_of_topology("grid", R"({"world_size":4,"axes":["pipe"]})"),
              HasSubstr("axes and dims must both be there"));
  EXPECT_THAT(error_of_topology("grid", R"({"world_size":1048576})"), HasSubstr("fit in a line"));
}

TEST(RankGeneratorOperation, Answers) {
  const std::string args = R"({"sizes":{"dp":2,"gtp_remat":2},"order":"GTP_REMAT-dp","rank_offset":4)";
  EXPECT_EQ(ask_topology("rank_generator", args + R"(,"tokens":["dp","dp-gtp_remat"],"convention":"megatron"})"),
            json::parse(R"({
    "normalized_order":"gtp_remat-dp-pp-ep-cp","ordered_size":[2,2,1,1,1],"world_size":4,
    "groups":{"dp":[[4,6],[5,7]],"dp-gtp_remat":[[4,5,6,7]]}})"));
  EXPECT_EQ(ask_topology("rank_generator", args + "}")["groups"]["tp"], json::parse("[[4],[5],[6],[7]]"));
  EXPECT_THAT(error_of_topology("rank_generator", args + R"(,"tokens":["tp"],"convention":"megatron"})"),
              HasSubstr("no axis 'tp'"));
  EXPECT_THAT(error_of_topology("rank_generator", R"({"sizes":{"tp":2},"order":"dp"})"), HasSubstr("tp is 2"));
}

TEST(HyperCommGridOperation, AnswersForNamesAndPairs) {
  EXPECT_EQ(
      ask_topology("hyper_comm_grid", R"({"shape":[2,2],"dim_names":["tp","dp"],"world_size":8,"rank_offset":4})"),
      json::parse(R"({"groups":{"tp":[[4,5],[6,7]],"dp":[[4,6],[5,7]],"tp-dp":[[4,5,6,7]]},"views":{}})"));
  EXPECT_THAT(error_of_topology("hyper_comm_grid", R"({"shape":[4,4],"dim_names":["tp","dp"],"world_size":8})"),
              HasSubstr("has 16 ranks"));
}

TEST(HyperCommGridOperation, AnswersForViews) {
  const auto with_view = [](const std::string& view) {
    return R"({"shape":[2,4,2],"dim_names":["tp","dp","pp"],"rank_offset":8,"dims":["pp"],"views":{"experts":)" + view +
           "}}";
  };
  const std::string view = R"("dim_names":["etp","ep","edp","pp"],"shape":[1,4,2,2],"shared":["pp"])";
  EXPECT_EQ(ask_topology("hyper_comm_grid", with_view("{" + view + R"(,"dims":["pp","ep","pp-ep"]})")), json::parse(R"({
    "groups":{"pp":[[8,16],[9,17],[10,18],[11,19],[12,20],[13,21],[14,22],[15,23]]},
    "views":{"experts":{
      "groups":{"pp":[[8,16],[9,17],[10,18],[11,19],[12,20],[13,21],[14,22],[15,23]],
                "ep":[[8,9,10,11],[12,13,14,15],[16,17,18,19],[20,21,22,23]],
                "pp-ep":[[8,9,10,11,16,17,18,19],[12,13,14,15,20,21,22,23]]},
      "owners":{"pp":"base","ep":"experts","pp-ep":"experts"}}}})"));
  EXPECT_EQ(ask_topology("hyper_comm_grid", with_view("{" + view + "}"))["views"]["experts"]["groups"].size(), 10u);
  EXPECT_THAT(error_of_topology("hyper_comm_grid", with_view(R"({"dim_names":["a"],"shape":[8]})")),
              HasSubstr("has 8 ranks, the base"));
  EXPECT_THAT(error_of_topology("hyper_comm_grid", with_view(R"({"dim_names":["a"],"shape":[16],"dims":["tp"]})")),
              HasSubstr("no axis 'tp'"));
  EXPECT_THAT(error_of_topology("hyper_comm_grid", with_view(R"({"dim_names":["a"],"shape":[16],"x":1})")),
              HasSubstr("views.experts.x"));
}

TEST(HyperCommGridOperation, RefusesWorldsBelowNothing) {
  EXPECT_THAT(error_of_topology("hyper_comm_grid",
                                R"({"shape":[2],"dim_names":["tp"],"world_size":-2147483648,"rank_offset":1})"),
              HasSubstr("the world has -2147483648 ranks"));
}

TEST(DeviceMeshOperation, SlicesAndFlattens) {
  const json mesh =
      ask_topology("device_mesh", R"({"shape":[2,2,2],"dim_names":["pp","dp","tp"],"slices":["dp","pp-tp"]})");
  EXPECT_EQ(mesh["mesh"], json::parse("[[[0,1],[2,3]],[[4,5],[6,7]]]"));
  EXPECT_EQ(mesh["groups"]["dp"], json::parse("[[0,2],[1,3],[4,6],[5,7]]"));
  EXPECT_EQ(mesh["ranks"][6], json::parse(R"({"rank":6,"coordinate":[1,1,0],
    "group_ranks":{"pp":[2,6],"dp":[4,6],"tp":[6,7]},"local_rank":{"pp":1,"dp":1,"tp":0},
    "slices":{"dp":[4,6],"pp-tp":[[2,3],[6,7]]},"flatten":{"pp-tp":[2,3,6,7],"pp-dp-tp":[0,1,2,3,4,5,6,7]}})"));
  EXPECT_FALSE(ask_topology("device_mesh", R"({"shape":[2],"dim_names":["dp"]})")["ranks"][0].contains("flatten"));
  for (const char* slice : {"tp-pp", "x"})
    EXPECT_THAT(error_of_topology("device_mesh", std::string(R"({"shape":[2,2],"dim_names":["pp","tp"],"slices":[")") +
                                                     slice + "\"]}"),
                HasSubstr("[pp, tp]"));
  EXPECT_THAT(error_of_topology("device_mesh", R"({"shape":[2,4],"dim_names":["a","b"],"world_size":4})"),
              HasSubstr("has 8 ranks"));
  EXPECT_THAT(error_of_topology("device_mesh", R"({"shape":[2,2],"dim_names":["a","a"]})"), HasSubstr("twice"));
  EXPECT_THAT(error_of_topology("device_mesh", R"({"shape":[2,2],"dim_names":["a"]})"),
              HasSubstr("1 axes [a] but 2 sizes"));
}

TEST(PlacementOperation, ScoresAndFindsTheBestOrder) {
  // Nodes of two ranks: along b neighbours share a node, along a none do.
  EXPECT_EQ(ask_topology("placement", R"({"axes":["a","b"],"dims":[2,2],"ranks_per_node":2,"bytes":{"a":100,"b":1}})"),
            json::parse(R"({
    "crossing_groups":{"a":2,"b":0},"crossing_bytes":{"a":400,"b":0},"total":400,
    "best_order":["b","a"],"best_total":4})"));
  EXPECT_EQ(ask_topology("placement", R"({"axes":["a"],"dims":[3],"ranks_per_node":[1,2],"bytes":{"a":5}})")["total"],
            10);
  EXPECT_THAT(error_of_topology("placement", R"({"axes":["a"],"dims":[3],"ranks_per_node":[1,3],"bytes":{}})"),
              HasSubstr("the nodes have 4 ranks"));
  EXPECT_THAT(error_of_topology("placement", R"({"axes":["a"],"dims":[3],"ranks_per_node":0,"bytes":{}})"),
              HasSubstr("got 0"));
}

TEST(TopologyOperations, NameTheConventionsThatThereAre) {
  const auto with = [](const char* fields) { return std::string(R"({"convention":"nobody",)") + fields + "}"; };
  const std::string world = with(R"("axes":["a"],"dims":[2],"call":"world_size")");
  EXPECT_THAT(error_of_topology("query", world),
              HasSubstr("'nobody' is not known here; there are plumbline, deepspeed"));
  EXPECT_THAT(error_of_topology("process_topology", with(R"("axes":["a"],"dims":[2])")),
              HasSubstr("plumbline, deepspeed"));
  EXPECT_THAT(error_of_topology("prime_factors", with(R"("n":2)")), HasSubstr("plumbline, deepspeed"));
  EXPECT_THAT(error_of_topology("grid", with(R"("world_size":2)")), HasSubstr("plumbline, deepspeed"));
  EXPECT_THAT(error_of_topology("rank_generator", with(R"("sizes":{},"order":"")")), HasSubstr("plumbline, megatron"));
  EXPECT_THAT(error_of_topology("hyper_comm_grid", with(R"("shape":[],"dim_names":[])")),
              HasSubstr("plumbline, megatron"));
  EXPECT_THAT(error_of_topology("device_mesh", with(R"("shape":[],"dim_names":[])")), HasSubstr("plumbline, torch"));
  EXPECT_THAT(error_of_topology("placement", with(R"("axes":[],"dims":[],"ranks_per_node":1,"bytes":{})")),
              HasSubstr("there are plumbline"));
}

}  // namespace
}  // namespace plumbline::adapter
