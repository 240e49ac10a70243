// bucketing.race_check: which ops of a program nothing orders.
#include "harness/subject/adapter/operations.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/race_json.hpp"
#include "reference/program/validate.hpp"

namespace plumbline::subject {

using nlohmann::json;

namespace {

json race_check(const Arguments& arguments) {
  enum class By { plumbline };
  (void)arguments.convention<By>({{"plumbline", By::plumbline}});
  const program::Program program = program::program_of_json(arguments.get<json>("program"));
  const program::Rings rings = program::rings_of_json(arguments.get<json>("rings"));
  arguments.expect_no_others();
  require_valid(program, rings);
  return {{"races", json_of(find_races(program))}};
}

}  // namespace

void add_race_operations(AdapterService& service) {
  service.add({"bucketing.race_check",
               "ops of a program that nothing orders",
               {"plumbline"},
               {{"program", "any", "ops and variables (reference/program/program_json.hpp)"},
                {"rings", "object or list of any", "ranks by ring"}},
               {{"races", "list of object", "each variable, first, second (positions of ops), why"}}},
              race_check);
}

}  // namespace plumbline::subject
