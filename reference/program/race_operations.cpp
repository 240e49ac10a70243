// bucketing.race_check: which ops of a program nothing orders.
#include "reference/adapter/operations.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/race_json.hpp"
#include "reference/program/validate.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

json race_check(const Arguments& arguments) {
  const program::Program program = program::program_of_json(arguments.get<json>("program"));
  const program::Rings rings = program::rings_of_json(arguments.get<json>("rings"));
  arguments.expect_no_others();
  require_valid(program, rings);
  return {{"races", json_of(find_races(program))}};
}

}  // namespace

void add_race_operations(AdapterService& service) {
  service.add({"bucketing.race_check",
               "finds pairs of ops that access a variable without an order between them",
               {"plumbline"},
               program_rows(),
               {{"races",
                 "list of object",
                 "the pairs",
                 {{"variable", "text", "the variable"},
                  {"first", "integer", "position of the one op"},
                  {"second", "integer", "position of the other"},
                  {"why", "text", "what is missing between them"}}}},
               R"({"rings": {"12": [0, 1]}, "program": {
                   "vars": [{"name": "x", "shape": [4], "dtype": "float32"}, {"name": "g", "shape": [4], "dtype": "float32"},
                            {"name": "y", "shape": [4], "dtype": "float32"}],
                   "ops": [{"type": "relu", "inputs": {"X": ["x"]}, "outputs": {"Out": ["g"]}, "attrs": {"op_role": 1}},
                           {"type": "c_wait_compute", "inputs": {}, "outputs": {}, "attrs": {"op_role": 1, "ring_id": 12}},
                           {"type": "all_reduce", "inputs": {"x": ["g"]}, "outputs": {"out": ["g"]},
                            "attrs": {"op_role": 1, "ring_id": 12, "reduce_type": "sum", "use_calc_stream": false}},
                           {"type": "relu", "inputs": {"X": ["g"]}, "outputs": {"Out": ["y"]}, "attrs": {"op_role": 1}}]}})",
               {{"invalid_argument", "the program does not have the form, or is not valid"},
                {"out_of_range", "a number exceeds its type"}}},
              race_check);
}

}  // namespace plumbline::adapter
