// What an adapter answers about collectives: recorded cases.
#include <fstream>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

json recorded(const std::string& name) {
  const auto file = subject::data_folder() / "vectors" / "collectives" / name;
  std::ifstream stream(file);
  if (!stream) throw RuntimeFailure(fmt::format("'{}' cannot be read; it is part of an installation", file.string()));
  return json::parse(stream);
}

// The first element that differs, "" when there is none.
std::string difference(const json& expected, const json& got) {
  if (!got.is_array() || got.size() != expected.size())
    return fmt::format("expected {} elements, got {}", expected.size(), got.dump().substr(0, 200));
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (expected[i] != got[i])
      return fmt::format("element {} of {}: expected {}, got {}", i, expected.size(), expected[i].dump(),
                         got[i].dump());
  return {};
}

void ring_sum(Context& context) {
  const json vectors = recorded("ring_sum.json");
  for (const json& one : vectors.at("cases")) {
    json args{{"convention", "gloo"}};
    for (const char* field : {"world_size", "elements", "dtype", "op", "dst", "group", "inputs"})
      args[field] = one.at(field);
    const json result = context.adapter().ask("comm.ring_sum", args);
    const std::string problem = difference(one.at("output"), result.value("output", json()));
    if (!problem.empty()) report(fmt::format("{}: {}", one.at("name").get<std::string>(), problem));
  }
}

}  // namespace

void add_adapter_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.adapter.ring_sum",
             .verifies = {"COLL-060@180a"},
             .door = suite::Door::adapter,
             .operations = {"comm.ring_sum"},
             .body = ring_sum});
}

}  // namespace plumbline::conformance
