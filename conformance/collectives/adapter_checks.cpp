// What an adapter answers about collectives: recorded cases.
#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/trials.hpp"
#include "conformance/support/recorded.hpp"
#include "harness/suite/adapter_error.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

// What is wrong with the answer to a case, "" when it is right. An adapter that is gone ends the check by its
// exception.
std::string wrong_answer(suite::Adapter& adapter, const json& args, const json& expected) {
  try {
    const json result = adapter.ask("comm.ring_sum", args);
    if (!result.is_object() || !result.contains("output"))
      return "expected an object with \"output\", got " + result.dump().substr(0, 200);
    return first_difference(expected, result["output"]);
  } catch (const suite::AdapterError& error) {
    return error.what();
  }
}

void ring_sum(Context& context) {
  const json vectors = recorded("collectives", "ring_sum");
  for (const json& one : vectors.at("cases")) {
    if (one.at("world_size") != context.parameters().number("ranks")) continue;
    json args{{"convention", "gloo"}};
    for (const char* field : {"world_size", "elements", "dtype", "op", "dst", "group", "inputs"})
      args[field] = one.at(field);
    const std::string problem = wrong_answer(context.adapter(), args, one.at("output"));
    if (!problem.empty()) report(fmt::format("{}: {}", one.at("name").get<std::string>(), problem));
  }
}

}  // namespace

void add_adapter_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.adapter.ring_sum",
             .verifies = {"COLL-060@3097"},
             .door = suite::Door::adapter,
             .axes = {{"ranks", {"2", "3", "4", "5"}}},  // all that are recorded
             .operations = {"comm.ring_sum"},
             .convention = "gloo",
             .options =
                 [](const suite::Parameters&) {  // those that are recorded
                   return suite::OptionValues{{"comm.ring_sum", {{"dtype", {"float16", "float32", "float64"}}}}};
                 },
             .body = ring_sum});
}

}  // namespace plumbline::conformance
