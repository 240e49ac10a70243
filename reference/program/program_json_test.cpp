// Programs as text: what is read, what is written, what is refused.
#include "reference/program/program_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"
#include "reference/program/program_samples_test.hpp"

namespace plumbline::program {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ProgramJson, ReadsWhatItWrites) {
  Program program = samples::chain(3, 12, 0.5, "momentum");
  program.variables["w1@GRAD"] = {.shape = {2, -1}, .dtype = DataType::bf16, .placement = Placement{{0, 1}, {-1, 0}}};
  program.ops[4].on_calculation_stream = false;
  program.ops[4].stream = "gradient_sync_stream";
  program.ops[4].attributes = {{"axis", std::int64_t{-1}},
                               {"names", std::vector<std::string>{"a", "b"}},
                               {"sizes", std::vector<std::int64_t>{1, 2}},
                               {"flag", true},
                               {"value", 0.25}};
  program.ops[5].placement = {.process_mesh = {0, 1}, .input_dims_mappings = {{"x", {-1}}}};
  program.other_blocks = {{"while", "tanh"}, {}};
  EXPECT_EQ(program_of_json(json_of(program)), program);
}

TEST(ProgramJson, HasAFieldForWhatThePassLooksAt) {
  const Program program = program_of_json(json::parse(R"({"vars": [{"name": "g", "shape": [2], "dtype": "float16"}],
      "ops": [{"type": "all_reduce", "inputs": {"x": ["g"]}, "outputs": {"out": ["g"]},
               "attrs": {"op_role": 1, "op_namescope": "/s", "ring_id": 7, "reduce_type": "prod", "use_calc_stream": true,
                         "execution_stream": "t", "scale": 2}}]})"));
  const Op& op = program.ops.at(0);
  EXPECT_EQ(op.role, role::backward);
  EXPECT_EQ(op.name_scope, "/s");
  EXPECT_EQ(op.ring, 7);
  EXPECT_EQ(op.reduction, comm::ReduceOp::product);
  EXPECT_EQ(op.on_calculation_stream, true);
  EXPECT_EQ(op.stream, "t");
  EXPECT_EQ(number_of(op, "scale"), 2.0);
  EXPECT_EQ(program.variables.at("g").dtype, DataType::f16);
}

std::string error_of(const char* ops, const char* vars = R"([{"name": "g", "shape": [2], "dtype": "float32"}])") {
  try {
    (void)program_of_json({{"vars", json::parse(vars)}, {"ops", json::parse(ops)}});
  } catch (const Error& error) {
    return std::string(error.kind()) + ": " + error.what();
  }
  return "accepted";
}

std::string error_of_attributes(const char* attributes) {
  return error_of(
      (R"([{"type": "t", "inputs": {}, "outputs": {}, "attrs": )" + std::string(attributes) + "}]").c_str());
}

TEST(ProgramJson, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(error_of("{}"), HasSubstr("invalid_argument: program.ops must be a list, got an object"));
  EXPECT_THAT(error_of("[3]"), HasSubstr("program.ops[0] must be an object, got 3"));
  EXPECT_THAT(error_of(R"([{"inputs": {}, "outputs": {}}])"),
              HasSubstr("program.ops[0].type must be a text, got null"));
  EXPECT_THAT(error_of(R"([{"type": "t", "inputs": {"X": "g"}, "outputs": {}}])"),
              HasSubstr("program.ops[0].inputs.X must be a list, got \"g\""));
  EXPECT_THAT(error_of(R"([{"type": "t", "inputs": {}, "outputs": {}, "atrs": {}}])"),
              HasSubstr("program.ops[0] has no field 'atrs'"));
  EXPECT_THAT(error_of_attributes(R"({"op_role": true})"),
              HasSubstr("program.ops[0].attrs.op_role must be an integer"));
  EXPECT_THAT(error_of_attributes(R"({"op_role": -1})"), HasSubstr("attrs.op_role must be 0 or more, got -1"));
  EXPECT_THAT(error_of_attributes(R"({"reduce_type": "mean"})"), HasSubstr("sum, avg, min, max or prod, got \"mean\""));
  EXPECT_THAT(error_of_attributes(R"({"axis": {}})"), HasSubstr("program.ops[0].attrs.axis must be true or false"));
}

TEST(ProgramJson, RefusesNumbersThatNoFieldHolds) {
  EXPECT_THAT(error_of_attributes(R"({"ring_id": 4294967296})"),
              HasSubstr("out_of_range: program.ops[0].attrs.ring_id is 4294967296, more than 32 bits hold"));
  EXPECT_THAT(error_of_attributes(R"({"axis": 18446744073709551615})"), HasSubstr("more than 64 bits hold"));
  EXPECT_THAT(error_of_attributes(R"({"value": 1e39})"),
              HasSubstr("out_of_range: program.ops[0].attrs.value is 1e+39"));
  EXPECT_EQ(error_of_attributes(R"({"value": "-inf", "rescale_grad": 0.5})"), "accepted");
}

TEST(ProgramJson, RefusesVariablesThatCannotBe) {
  EXPECT_THAT(error_of("[]", R"([{"name": "g", "shape": [2, -2], "dtype": "float32"}])"),
              HasSubstr("program.vars[0].shape[1] must be 0 or more, or -1 where it is not known, got -2"));
  EXPECT_THAT(error_of("[]", R"([{"name": "g", "shape": [4294967296, 4294967296], "dtype": "float32"}])"),
              HasSubstr("out_of_range: program.vars[0] ('g'): a variable of shape [4294967296,4294967296]"));
  EXPECT_THAT(error_of("[]", R"([{"name": "g", "shape": [], "dtype": "f32"}])"), HasSubstr("a type such as float32"));
  EXPECT_THAT(
      error_of("[]", R"([{"name": "g", "shape": [], "dtype": "bool"}, {"name": "g", "shape": [], "dtype": "bool"}])"),
      HasSubstr("program.vars[1].name is 'g', which there is already"));
}

TEST(ProgramJson, ReadsRings) {
  const Rings rings{{0, {0, 1, 2}}, {12, {2, 0}}};
  EXPECT_EQ(rings_of_json(json_of(rings)), rings);
  EXPECT_THAT(
      [] { (void)rings_of_json(json::parse(R"({"a": [0]})")); },
      ThrowsMessage<InvalidArgument>(HasSubstr("rings must be an object of rings by their numbers, got \"a\"")));
  EXPECT_THAT([] { (void)rings_of_json(json::parse(R"({"0": []})")); },
              ThrowsMessage<InvalidArgument>(HasSubstr("rings.0 has no ranks")));
  EXPECT_THAT([] { (void)rings_of_json(json::parse(R"({"0": [1, 1]})")); },
              ThrowsMessage<InvalidArgument>(HasSubstr("rings.0 has a rank twice: [1,1]")));
  EXPECT_THAT([] { (void)rings_of_json(json::parse(R"({"-3": [0]})")); },
              ThrowsMessage<InvalidArgument>(HasSubstr("rings, ring must be 0 or more, got -3")));
  EXPECT_THAT([] { (void)rings_of_json(json::parse(R"({"3": [0, -4]})")); },
              ThrowsMessage<InvalidArgument>(HasSubstr("rings.3[1] must be a rank, 0 or more, got -4")));
}

TEST(Shapes, AreCounted) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0, 1LL << 62, 4}), 0);
  EXPECT_EQ(element_count({16, 32}), 512);
  EXPECT_EQ(element_count({-1, 2}), std::nullopt);
  EXPECT_THROW((void)element_count({1LL << 62, 4}), OutOfRange);
}

}  // namespace
}  // namespace plumbline::program
